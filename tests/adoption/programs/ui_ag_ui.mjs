// Run an agent with `@ag-ui/client`, and print its messages, its custom events and its error.
import { HttpAgent } from "@ag-ui/client";

const [url, content] = process.argv.slice(2);
const agent = new HttpAgent({ url, initialMessages: [{ id: "q", role: "user", content }] });
const steps = [];
let error = null;
try {
  await agent.runAgent(
    {},
    {
      onCustomEvent: ({ event }) => void steps.push(event.value.event),
      onRunErrorEvent: ({ event }) => void (error = event.message),
    },
  );
} catch (thrown) {
  error ??= thrown.message;
}
console.log(JSON.stringify({ messages: agent.messages, steps, error }));
