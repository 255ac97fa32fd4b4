// Ask a gateway with npm's `ai`, whole and streamed, through each of its providers, and print what came.
// Their readers refuse what is not of the form of its protocol.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const [url] = process.argv.slice(2);
const v1 = { baseURL: `${url}/v1`, apiKey: "any" };
const models = {
  chat: createOpenAI(v1).chat("asked-for"),
  responses: createOpenAI(v1).responses("asked-for"),
  compatible: createOpenAICompatible({ ...v1, name: "compatible", includeUsage: true })("asked-for"),
  anthropic: createAnthropic(v1)("asked-for"),
  google: createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: "any" })("asked-for"),
};
const inputSchema = jsonSchema({ type: "object", properties: { bird: { type: "string" } } });
const tools = { look: tool({ description: "Look.", inputSchema }) };

async function seen(name, ask) {
  try {
    return await ask({ model: models[name], prompt: "Where?", maxRetries: 0, maxOutputTokens: 1000, tools });
  } catch (error) {
    return { error: `${error} ${error.cause ?? ""}`, status: error.statusCode };
  }
}

async function whole(asked) {
  const { text, finishReason, toolCalls } = await generateText(asked);
  return { text, finish: finishReason, calls: toolCalls.map((call) => call.input) };
}

async function streamed(asked) {
  let failed;
  const stream = streamText({ ...asked, onError: ({ error }) => (failed = error) });
  await stream.consumeStream();
  if (failed) throw failed;
  const calls = (await stream.toolCalls).map((call) => call.input);
  return { text: await stream.text, finish: await stream.finishReason, calls };
}

const came = {};
for (const name of Object.keys(models)) came[name] = [await seen(name, whole), await seen(name, streamed)];
console.log(JSON.stringify(came));
