"""The official SDKs, asked in one way: whole or streamed, in a thread or in an event loop, and what
each gathered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from typing import Any, Final

from attrs import define, field

APIS: Final = ("openai", "responses", "anthropic", "gemini", "interactions")
"""The protocols that SDKs of ours speak."""
WAYS: Final = ("whole", "stream", "awhole", "astream")
KEY: Final = "sk-caller-71be0c55d2a94f"
"""The key of the program, which no backend may see."""
HOST: Final = "http://provider.invalid"
"""Where the SDK believes the provider to be; no name server knows it."""
QUESTION: Final = "Where do the herons of the northern lake nest?"
MODEL: Final = "asked-for"

_GOOGLES: Final = ("gemini", "interactions")
"""The protocols of Google's SDK."""
_WORDS: Final = ("stop", "length", "tools", "filtered")
FINISHES: Final[Mapping[str, Mapping[str, str]]] = {
    "openai": dict(zip(_WORDS, ("stop", "length", "tool_calls", "content_filter"), strict=True)),
    "responses": dict(
        zip(_WORDS, ("completed", "max_output_tokens", "completed", "content_filter"), strict=True)
    ),
    "anthropic": dict(zip(_WORDS, ("end_turn", "max_tokens", "tool_use", "refusal"), strict=True)),
    "gemini": dict(zip(_WORDS, ("STOP", "MAX_TOKENS", "STOP", "SAFETY"), strict=True)),
    "interactions": dict(
        zip(_WORDS, ("completed", "incomplete", "requires_action", "failed"), strict=True)
    ),
}
"""How an answer ends in each protocol."""


@define
class Seen:
    """What a program has at the end: all that its SDK has handed out, and the error that it raised,
    if any.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish: str | None = None
    calls: list[tuple[str, Any]] = field(factory=list)
    usage: tuple[int, int] | None = None
    id: str = ""
    model: str = ""
    said: Any = None  # the assistant's turn, as the next request holds it
    events: list[Any] = field(factory=list)
    error: Exception | None = None

    @property
    def status(self) -> int | None:
        """Return the HTTP status of the error."""
        codes = (getattr(self.error, name, None) for name in ("status_code", "code"))
        return next((code for code in codes if isinstance(code, int)), None)

    @property
    def message(self) -> str:
        """Return what the error says."""
        return str(self.error)


def is_async(way: str) -> bool:
    """Tell whether a way needs an event loop."""
    return way.startswith("a")


def streams(way: str) -> bool:
    """Tell whether an answer is streamed."""
    return way.endswith("stream")


def asking(api: str, asked: Any = QUESTION, /, **fields: Any) -> dict[str, Any]:
    """Return the arguments of a request: a question or a conversation in the protocol's form, and
    further fields.
    """
    turns = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    match api:
        case "openai":
            return {"model": MODEL, "messages": turns, **fields}
        case "responses":
            return {"model": MODEL, "input": turns, **fields}
        case "anthropic":
            return {
                "model": MODEL,
                "messages": turns,
                "max_tokens": 1_000,
                **fields,
            }
        case "interactions":
            return {"model": MODEL, "input": asked, **fields}
    contents = [{"role": "user", "parts": [{"text": asked}]}] if isinstance(asked, str) else asked
    request = {"model": MODEL, "contents": contents}
    if fields:
        request["config"] = fields
    return request


def ask(
    api: str,
    way: str,
    asked: Any = QUESTION,
    /,
    *,
    take: int | None = None,
    **options: Any,
) -> Seen:
    """Ask with the official SDK, and return what it handed out.

    Arguments:
        take: how many events of a stream to take before the program leaves it.
        options: of `sdk_of`; the others are fields of the request.
    """
    own = {
        name: options.pop(name)
        for name in ("transport", "base_url", "key", "headers")
        if name in options
    }
    given = asking(api, asked, **options)
    if is_async(way):
        return asyncio.run(_aask(api, way, given, take, own))
    seen = Seen()
    sdk = sdk_of(api, way, **own)
    try:
        if not streams(way):
            seen.events = [_create(api, sdk, way, given)]
        else:
            with closing(_create(api, sdk, way, given)) as stream:
                _taken(stream, seen.events, take)
    except Exception as error:
        seen.error = error
    finally:
        sdk.close()
    return read(api, way, seen)


def _taken(stream: Iterator[Any], events: list[Any], take: int | None) -> None:
    for event in stream:
        events.append(event)
        if take is not None and len(events) >= take:
            break


async def _aask(
    api: str,
    way: str,
    given: dict[str, Any],
    take: int | None,
    own: dict[str, Any],
) -> Seen:
    sdk = sdk_of(api, way, **own)
    try:
        return read(api, way, await agather(api, sdk, way, given, take))
    finally:
        with suppress(AttributeError):
            await (sdk.aclose() if api in _GOOGLES else sdk.close())


async def agather(
    api: str,
    sdk: Any,
    way: str,
    given: dict[str, Any],
    take: int | None = None,
) -> Seen:
    """Ask in this event loop, and return the events that came."""
    seen = Seen()
    try:
        answer = await _create(api, sdk, way, given)
        if not streams(way):
            seen.events = [answer]
        elif api == "gemini":
            async with aclosing(answer) as stream:
                await _ataken(stream, seen.events, take)
        else:
            async with answer:
                await _ataken(answer, seen.events, take)
    except Exception as error:
        seen.error = error
    return seen


async def _ataken(stream: AsyncIterator[Any], events: list[Any], take: int | None) -> None:
    async for event in stream:
        events.append(event)
        if take is not None and len(events) >= take:
            break


def sdk_of(
    api: str,
    way: str,
    *,
    transport: Any = None,
    base_url: str = HOST,
    key: str = KEY,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Return the official client of a protocol.

    Arguments:
        transport: of its HTTP client; None for the network.
        base_url: without the version.
        key: what the program believes to be its key.
        headers: further headers of each request.
    """
    kind = "Async" if is_async(way) else ""
    if api in _GOOGLES:
        from google import genai

        args = {} if transport is None else {"client_args": {"transport": transport}}
        args |= {} if transport is None else {"async_client_args": {"transport": transport}}
        http: Any = {
            "base_url": base_url,
            "headers": dict(headers or {}),
            **args,
        }
        if api == "interactions":  # which retries by itself
            http["retry_options"] = {"attempts": 1}
        client = genai.Client(api_key=key, vertexai=False, http_options=http)
        return client.aio if kind else client
    own: dict[str, Any] = {
        "api_key": key,
        "max_retries": 0,
        "default_headers": dict(headers or {}),
    }
    own["_strict_response_validation"] = True
    if api == "anthropic":
        import anthropic as library

        own["base_url"] = base_url
    else:
        import openai as library  # type: ignore[no-redef]

        own["base_url"] = f"{base_url}/v1"
    if transport is not None:
        own["http_client"] = getattr(library, f"Default{kind}HttpxClient")(transport=transport)
    return getattr(library, f"{kind}{'Anthropic' if api == 'anthropic' else 'OpenAI'}")(**own)


def _create(
    api: str,
    sdk: Any,
    way: str,
    given: dict[str, Any],
) -> Any:
    if api == "gemini":
        name = "generate_content_stream" if streams(way) else "generate_content"
        return getattr(sdk.models, name)(**given)
    created = {
        "openai": lambda: sdk.chat.completions,
        "responses": lambda: sdk.responses,
        "interactions": lambda: sdk.interactions,
    }
    create = created.get(api, lambda: sdk.messages)().create
    return create(**given, **({"stream": True} if streams(way) else {}))


# what was gathered


def read(api: str, way: str, seen: Seen) -> Seen:
    """Read the events of an SDK, the whole answer among them if there is one."""
    reader = _READERS[api][1 if streams(way) else 0]
    for event in seen.events:
        reader(seen, event)
    return seen


def _chat(seen: Seen, completion: Any) -> None:
    _chat_head(seen, completion)
    choice = completion.choices[0]
    message = choice.message
    seen.text = message.content or ""
    seen.refusal = message.refusal or ""
    seen.finish = choice.finish_reason
    seen.reasoning = getattr(message, "reasoning_content", None) or ""
    seen.calls = [
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or ()
    ]
    seen.said = message.model_dump(exclude_none=True)


def _chat_head(seen: Seen, completion: Any) -> None:
    assert seen.id in ("", completion.id)
    seen.id = completion.id
    seen.model = completion.model
    if completion.usage is not None:
        seen.usage = completion.usage.prompt_tokens, completion.usage.completion_tokens


def _chat_event(seen: Seen, chunk: Any) -> None:
    _chat_head(seen, chunk)
    seen.said = seen.said or {
        "role": "assistant",
        "content": "",
        "tool_calls": [],
    }
    for choice in chunk.choices:
        delta = choice.delta
        seen.text += delta.content or ""
        seen.refusal += delta.refusal or ""
        seen.reasoning += getattr(delta, "reasoning_content", None) or ""
        seen.finish = choice.finish_reason or seen.finish
        for call in delta.tool_calls or ():
            if call.function.name:
                function = {"name": call.function.name, "arguments": ""}
                seen.said["tool_calls"].append(
                    {"id": call.id, "type": "function", "function": function}
                )
            seen.said["tool_calls"][call.index]["function"]["arguments"] += (
                call.function.arguments or ""
            )
    seen.said["content"] = seen.text
    if seen.finish is not None:
        functions = [call["function"] for call in seen.said["tool_calls"]]
        seen.calls = [(one["name"], json.loads(one["arguments"])) for one in functions]


def _response(seen: Seen, response: Any) -> None:
    seen.id = response.id
    seen.model = response.model
    seen.text = response.output_text
    details = response.incomplete_details
    seen.finish = response.status if details is None else details.reason
    seen.said = [item.model_dump(exclude_none=True, exclude={"status"}) for item in response.output]
    seen.reasoning = seen.refusal = ""
    for item in response.output:
        if item.type == "reasoning":
            seen.reasoning += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            seen.calls.append((item.name, json.loads(item.arguments)))
        elif item.type == "message":
            seen.refusal += "".join(part.refusal for part in item.content if part.type == "refusal")
    if response.usage is not None:
        seen.usage = response.usage.input_tokens, response.usage.output_tokens


def _response_event(seen: Seen, event: Any) -> None:
    match event.type:
        case "response.created":
            seen.id = event.response.id
            seen.model = event.response.model
        case "response.output_text.delta":
            seen.text += event.delta
        case "response.refusal.delta":
            seen.refusal += event.delta
        case "response.reasoning_summary_text.delta":
            seen.reasoning += event.delta
        case "response.completed" | "response.incomplete" | "response.failed":
            gathered = seen.text, seen.reasoning, seen.refusal, seen.id
            _response(seen, event.response)
            assert gathered == (seen.text, seen.reasoning, seen.refusal, seen.id), (
                "the end repeats what was streamed"
            )


def _message(seen: Seen, message: Any) -> None:
    seen.id = message.id
    seen.model = message.model
    seen.finish = message.stop_reason
    seen.usage = message.usage.input_tokens, message.usage.output_tokens
    _blocks(seen, [block.model_dump(exclude_none=True) for block in message.content])
    if message.stop_details is not None:
        seen.refusal = message.stop_details.explanation or ""


def _blocks(seen: Seen, blocks: Sequence[Mapping[str, Any]]) -> None:
    seen.said = {"role": "assistant", "content": list(blocks)}
    seen.text = "".join(block["text"] for block in blocks if block["type"] == "text")
    seen.reasoning = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    seen.calls = [
        (block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
    ]


def _message_event(seen: Seen, event: Any) -> None:
    blocks = seen.said["content"] if seen.said else []
    match event.type:
        case "message_start":
            seen.id = event.message.id
            seen.model = event.message.model
        case "content_block_start":
            assert event.index == len(blocks)
            blocks.append(event.content_block.model_dump(exclude_none=True))
        case "content_block_delta":
            delta = event.delta
            block = blocks[event.index]
            name = delta.type.removesuffix("_delta")
            if name == "input_json":
                block["input"] = (block["input"] or "") + delta.partial_json
            else:
                block[name] = block.get(name, "") + getattr(delta, name)
        case "content_block_stop" if blocks[event.index]["type"] == "tool_use":
            blocks[event.index]["input"] = json.loads(blocks[event.index]["input"] or "{}")
        case "message_delta":
            seen.finish = event.delta.stop_reason
            seen.usage = event.usage.input_tokens, event.usage.output_tokens
            if event.delta.stop_details is not None:
                seen.refusal = event.delta.stop_details.explanation or ""
    _blocks(seen, blocks)


def _content(seen: Seen, response: Any) -> None:
    assert seen.id in ("", response.response_id)
    seen.id = response.response_id
    seen.model = response.model_version
    usage = response.usage_metadata
    if usage is not None:
        thoughts = usage.thoughts_token_count or 0
        seen.usage = usage.prompt_token_count, usage.candidates_token_count + thoughts
    seen.said = seen.said or {"role": "model", "parts": []}
    for candidate in response.candidates or ():
        parts = (candidate.content.parts if candidate.content else None) or ()
        for part in parts:
            if part.function_call:
                seen.calls.append((part.function_call.name, part.function_call.args))
            elif part.thought:
                seen.reasoning += part.text or ""
            else:
                seen.text += part.text or ""
        seen.said["parts"] += [part.model_dump(exclude_none=True) for part in parts]
        seen.finish = candidate.finish_reason.value if candidate.finish_reason else seen.finish
        seen.refusal = candidate.finish_message or seen.refusal


def _interaction(seen: Seen, interaction: Any) -> None:
    _interaction_head(seen, interaction)
    _steps(seen, [step.model_dump(exclude_none=True) for step in interaction.steps or ()])


def _interaction_head(seen: Seen, interaction: Any) -> None:
    assert seen.id in ("", interaction.id)
    seen.id = interaction.id
    seen.model = interaction.model
    seen.finish = None if interaction.status == "in_progress" else interaction.status
    usage = interaction.usage
    if usage is not None:
        thoughts = usage.total_thought_tokens or 0
        seen.usage = usage.total_input_tokens, usage.total_output_tokens + thoughts


def _steps(seen: Seen, steps: list[Any]) -> None:
    seen.said = steps
    seen.text = seen.reasoning = seen.refusal = ""
    seen.calls = []
    for step in steps:
        texts = [each["text"] for each in step.get("content") or step.get("summary") or ()]
        if step["type"] == "thought":
            seen.reasoning += "".join(texts)
        elif step["type"] == "function_call":
            seen.calls.append((step["name"], step["arguments"]))
        else:
            seen.text += "".join(texts)
            seen.refusal += step.get("error", {}).get("message", "")


def _interaction_event(seen: Seen, event: Any) -> None:
    steps = seen.said or []
    match event.event_type:
        case "interaction.created" | "interaction.completed":
            _interaction_head(seen, event.interaction)
        case "error":  # which the SDK hands out and does not raise
            seen.error = RuntimeError(event.error.message)
        case "step.start":
            assert event.index == len(steps)
            steps.append(event.step.model_dump(exclude_none=True))
        case "step.delta":
            _step_delta(steps[event.index], event.delta)
        case "step.stop" if "pieces" in steps[event.index]:
            pieces = steps[event.index].pop("pieces")
            steps[event.index]["arguments"] = json.loads(pieces)
    _steps(seen, steps)


def _step_delta(step: dict[str, Any], delta: Any) -> None:
    match delta.type:
        case "text":
            step.setdefault("content", []).append({"type": "text", "text": delta.text})
        case "thought_summary":
            step.setdefault("summary", []).append({"type": "text", "text": delta.content.text})
        case "thought_signature":
            step["signature"] = delta.signature
        case "arguments_delta":
            step["pieces"] = step.get("pieces", "") + delta.arguments


_READERS: Final[Mapping[str, tuple[Any, Any]]] = {
    "openai": (_chat, _chat_event),
    "responses": (_response, _response_event),
    "anthropic": (_message, _message_event),
    "gemini": (_content, _content),
    "interactions": (_interaction, _interaction_event),
}


def turn_after(api: str, asked: str, seen: Seen, *results: str) -> list[Any]:
    """Return the next request's conversation: a question, what the model said, and the results of
    its calls.
    """
    question: dict[str, Any] = {"role": "user", "content": asked}
    if api == "gemini":
        question = {"role": "user", "parts": [{"text": asked}]}
    elif api == "interactions":
        question = {"type": "user_input", "content": [{"type": "text", "text": asked}]}
    said = seen.said if isinstance(seen.said, list) else [seen.said]
    return [question, *said, *_results(api, seen, results)]


def _results(api: str, seen: Seen, results: tuple[str, ...]) -> list[Any]:
    match api:
        case "openai":
            ids = [call["id"] for call in seen.said["tool_calls"]]
            return [
                {"role": "tool", "tool_call_id": id, "content": one}
                for id, one in zip(ids, results, strict=True)
            ]
        case "responses":
            ids = [item["call_id"] for item in seen.said if item["type"] == "function_call"]
            kind = "function_call_output"
            return [
                {"type": kind, "call_id": id, "output": one}
                for id, one in zip(ids, results, strict=True)
            ]
        case "anthropic":
            ids = [block["id"] for block in seen.said["content"] if block["type"] == "tool_use"]
            blocks = [
                {"type": "tool_result", "tool_use_id": id, "content": one}
                for id, one in zip(ids, results, strict=True)
            ]
            return [{"role": "user", "content": blocks}]
        case "interactions":
            calls = [step for step in seen.said if step["type"] == "function_call"]
            return [
                {
                    "type": "function_result",
                    "call_id": call["id"],
                    "name": call["name"],
                    "result": one,
                }
                for call, one in zip(calls, results, strict=True)
            ]
    names = [part["function_call"] for part in seen.said["parts"] if "function_call" in part]
    parts = [
        {
            "function_response": {
                "id": call.get("id"),
                "name": call["name"],
                "response": {"output": one},
            }
        }
        for call, one in zip(names, results, strict=True)
    ]
    return [{"role": "user", "parts": parts}]
