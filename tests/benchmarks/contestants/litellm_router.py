"""LiteLLM's router, with two retries and one model to fall back to."""

from collections.abc import Awaitable, Callable

from litellm import Router

MESSAGES = [{"role": "user", "content": "What is a state machine?"}]


def _router(url: str) -> Router:
    models = [
        {
            "model_name": name,
            "litellm_params": {
                "model": f"openai/{name}",
                "api_base": url,
                "api_key": "sk-1f38",
            },
        }
        for name in ("bench", "backup")
    ]
    return Router(
        model_list=models,
        fallbacks=[{"bench": ["backup"]}],
        num_retries=2,
        timeout=60,
    )


def call(url: str) -> Callable[[], str]:
    """Ask for a completion."""
    router = _router(url)
    return lambda: router.completion(model="bench", messages=MESSAGES).choices[0].message.content


def acall(url: str, connections: int | None = None) -> Callable[[], Awaitable[str]]:
    """Do the same asynchronously; how many connections there are is left to it."""
    router = _router(url)

    async def one() -> str:
        return (
            (await router.acompletion(model="bench", messages=MESSAGES)).choices[0].message.content
        )

    return one


def stream(url: str) -> Callable[[], str]:
    """Gather the text of a stream."""
    router = _router(url)
    options = {"include_usage": True}

    def one() -> str:
        chunks = router.completion(
            model="bench", messages=MESSAGES, stream=True, stream_options=options
        )
        return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)

    return one
