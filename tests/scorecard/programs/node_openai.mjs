// The openai SDK for Node with its defaults, streamed.

import OpenAI from "openai";

const stream = await new OpenAI().chat.completions.create({
  model: "gpt-5",
  messages: [{ role: "user", content: "What should a caller expect?" }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
