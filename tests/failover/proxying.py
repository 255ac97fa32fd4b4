"""Play the faults through `rungwise proxy`, whose caller is a plain HTTP client, as in the public
benchmark.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from failover.endpoint import POLICY, chains
from failover.faults import FAULTS, Fault
from failover.playing import NOTHING, Caller, Played, side_by_side, steps_of, watched
from failover.provider import FaultyProvider, Scene
from failover.scaling import scaled, scaled_health
from failover.seen import Asked
from rungwise import Journal, Policy
from rungwise.adapters.exam.answer import PROMPT
from support.proxies import policy_toml, proxy

ROW: Final = "interactive, through the proxy"


def play_through_proxy(
    faults: Iterable[Fault] = FAULTS.values(), *, scale: float = 1.0
) -> list[Played]:
    """Play faults side by side to one proxy with `Policy.interactive()`.

    Arguments:
        scale: by how much every time is multiplied, of the faults and of the policy.
    """
    policy = POLICY
    if scale != 1.0:
        health = "\n".join(
            f"{name} = {value}" for name, value in attrs.asdict(scaled_health(scale)).items()
        )
        policy = f"{policy_toml(scaled(Policy.interactive(), scale))}\n[health]\n{health}\n"
    with tempfile.TemporaryDirectory() as name, FaultyProvider(scale) as provider:
        folder = Path(name)
        scenes = {fault.name: provider.play(fault) for fault in (NOTHING, *faults)}
        models = {each.primary: (each.primary, each.fallback) for each in scenes.values()}
        toml = chains(models, provider.base_url, policy)
        with (
            proxy(toml, folder, "--journals", str(folder)) as served,
            httpx.Client(base_url=served.base_url, timeout=None, limits=httpx.Limits()) as client,
        ):

            def play_one(fault: Fault) -> Played:
                scene = scenes[fault.name]
                return watched(
                    scene, lambda limit, begins_at: _Caller(client, folder, scene, limit, begins_at)
                )

            play_one(NOTHING)  # the first call of a process loads what calls are made with
            return side_by_side(play_one, faults)


class _Caller(Caller):
    """Ask the proxy for a stream, and read it as a careful client would."""

    def __init__(
        self,
        client: httpx.Client,
        journals: Path,
        scene: Scene,
        limit: float,
        begins_at: float,
    ) -> None:
        self.client = client
        self.journals = journals
        self._response: httpx.Response | None = None
        super().__init__(scene, limit, begins_at)

    def ask(self) -> dict[str, Any]:
        body = {
            "model": self.scene.primary,
            "messages": [{"role": "user", "content": PROMPT}],
            "stream": True,
        }
        with self.client.stream(
            "POST", "/chat/completions", json={**body, "stream_options": {"include_usage": True}}
        ) as response:
            self._response = response
            if response.status_code != 200:
                return _error(json.loads(response.read()))
            return _gathered(response)

    def came(self, ended: Any, **when: float) -> Asked:
        if isinstance(ended, Exception):
            return Asked(error=type(ended).__name__, **when)
        return Asked(**ended, steps=self.steps(ended), **when)

    def cancel(self) -> None:
        if self._response is not None:
            self._response.close()

    def steps(self, ended: Any) -> tuple[str, ...]:
        id = self._response.headers["x-rungwise-journal"] if self._response is not None else ""
        file = self.journals / f"{id}.json"
        return steps_of(Journal.from_json(file.read_bytes())) if id and file.exists() else ()


def _error(body: Any) -> dict[str, Any]:
    """Return what an error in the form of the protocol says; anything else is none that a caller
    can read.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not error.get("message"):
        return {"error": "an error of no form"}
    words = (error.get("code"), error["message"])
    return {
        "error": str(error.get("type")),
        "is_clean": True,
        "reasons": tuple(str(each) for each in words if each),
    }


def _gathered(response: httpx.Response) -> dict[str, Any]:
    """Read a stream to its end: what it says, by which model, and whether tokens were reported."""
    text = ""
    model = None
    has_usage = False
    for line in response.iter_lines():
        data = line.removeprefix("data: ")
        if data == line:  # a comment, or the end of an event
            continue
        if data == "[DONE]":
            break
        event = json.loads(data)
        if "error" in event:
            return _error(event)
        model = event.get("model") or model
        has_usage = has_usage or (event.get("usage") or {}).get("completion_tokens", 0) > 0
        text += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    return {"text": text, "model": model, "has_usage": has_usage}
