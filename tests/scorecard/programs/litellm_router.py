"""LiteLLM's router with a fallback, as its documentation shows it."""

import os

import litellm

URL = os.environ["OPENAI_BASE_URL"]
models = [
    {"model_name": name, "litellm_params": {"model": f"openai/{name}", "api_base": URL}}
    for name in ("gpt-5", "gpt-5-mini")
]
router = litellm.Router(
    model_list=models, fallbacks=[{"gpt-5": ["gpt-5-mini"]}], num_retries=2, timeout=30
)
message = {"role": "user", "content": "What should a caller expect?"}
print(router.completion(model="gpt-5", messages=[message]).choices[0].message.content)
