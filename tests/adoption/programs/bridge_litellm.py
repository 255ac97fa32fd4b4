"""A gateway on LiteLLM: it answers Responses, and asks a chat model behind it.

LiteLLM translates; what is here only takes requests and frames what it says.

    python bridge_litellm.py BASE_URL
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import litellm

TAKEN = ("input", "instructions", "max_output_tokens", "stream", "tools", "reasoning")


class Bridge(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = litellm.responses(
            model="hosted_vllm/thinker",
            api_base=sys.argv[1],
            api_key="none",
            num_retries=0,
            **{name: body[name] for name in TAKEN if name in body},
        )
        self.send_response(200)
        if body.get("stream"):
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in answer:
                self.wfile.write(b"data: " + event.model_dump_json().encode() + b"\n\n")
        else:
            data = answer.model_dump_json().encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bridge)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
