// Vercel's `ai` with its defaults, streamed.

import { openai } from "@ai-sdk/openai";
import { streamText } from "ai";

const { textStream } = streamText({ model: openai("gpt-5"), prompt: "What should a caller expect?" });
for await (const text of textStream) process.stdout.write(text);
