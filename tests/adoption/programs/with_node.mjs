// The official Node SDK takes no transport of Python's: it asks `rungwise proxy`, with its own retries off.

import OpenAI from "openai";

const sdk = new OpenAI({ baseURL: `${process.env.PROXY}/v1`, apiKey: "none", maxRetries: 0 });

const chunks = await sdk.chat.completions.create({
  model: process.env.MODEL ?? "default",
  messages: [{ role: "user", content: "What should a caller expect?" }],
  stream: true,
});
for await (const chunk of chunks) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
