// Read a UI message stream with npm's `ai`, as `useChat` does, and print the message and the errors.
import { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } from "ai";

const [url, body] = process.argv.slice(2);
const response = await fetch(url, { method: "POST", body });
const errors = [];
const chunks = parseJsonEventStream({ stream: response.body, schema: uiMessageChunkSchema }).pipeThrough(
  new TransformStream({
    transform(parsed, controller) {
      if (!parsed.success) throw parsed.error;
      controller.enqueue(parsed.value);
    },
  }),
);
let message;
const seen = [];
for await (message of readUIMessageStream({ stream: chunks, onError: (error) => errors.push(error.message) })) {
  seen.push(message.parts.filter((part) => part.type === "text").map((part) => part.text).join(""));
}
console.log(JSON.stringify({ message, seen, errors }));
