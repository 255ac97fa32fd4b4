"""LlamaIndex's model of OpenAI with its defaults, streamed."""

import os

from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model="gpt-5",
    is_chat_model=True,
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
)
for piece in llm.stream_complete("What should a caller expect?"):
    print(piece.delta or "", end="", flush=True)
