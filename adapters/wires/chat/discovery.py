"""Ask your own server what it is: how it continues a turn, and how much fits its window.

Each kind of server has a page that names it. Rungwise asks for these in turn, only at the backend's
origin.
"""

# Annotations are not strings here: backends in other modules have the field `server`; see
# `http_backend.py`.
from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Final, Literal, Self

from attrs import evolve, field, fields, frozen

from rungwise.adapters.wires.backend import Backend, HttpRequest
from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.endpoint import optional
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.json_text import object_in
from rungwise.adapters.wires.plain.parts import list_of
from rungwise.adapters.wires.registry import WIRES
from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.conversation.request import MOST_TOKENS
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.label import label

LARGEST_PAGE: Final = 2**20
"""The most bytes of a page that are read; one with a chat template has some tens of thousands."""

SECONDS: Final = 2.0
"""The seconds that a server gets for one page."""

Answer = bytes | None
"""The body of a page; b"" if the page does not exist, and None if no server answered in time."""


@frozen(kw_only=True)
class Server:
    """Hold what a server said it is."""

    name: str  # its kind, and its version if known
    # How it continues a trailing assistant turn; None if its kind does not determine that.
    prefill: Literal["continue_final_message"] | None = None
    known: Capabilities = field(factory=Capabilities)  # what it says about the model


_NO_PAGE: Final = (404, 405, 501)
"""The statuses of a server without a page, or that takes no requests there. Some name the model."""

UNKNOWN: Final = Server(name="")
"""A server that answered, but is of no known kind."""


@frozen
class DiscoverableBackend(HttpBackend):
    """Speak a protocol of OpenAI's, which servers of your own speak too.

    Its `server` is what `Client.discover` learned. `rungwise.OpenAI` sets `has_stand_in` and
    `stands_in`: one is asked in the other protocol where the server does not take this one.
    """

    server: Server | None = field(
        default=None, kw_only=True, repr=False, validator=optional(Server)
    )
    has_stand_in: bool = field(default=False, kw_only=True, repr=False)
    stands_in: bool = field(default=False, kw_only=True, repr=False)

    OTHER: ClassVar[str]
    """The name of OpenAI's other protocol in the registry."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.server is not None:
            own = self._own_capabilities or Capabilities()
            self._set(capabilities=own.or_else(self.server.known).or_else(self.capabilities))

    @property
    def door(self) -> frozenset[tuple[str, str]]:
        """Where it is remembered that the server does not take its protocol."""
        if self.has_stand_in or self.stands_in:
            return frozenset({(f"{self.root}{self.PATH}", self.model)})
        return frozenset()

    def decode(self, status: int, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        """Read a whole response, of any status; one that shows no such page at all may be asked in
        the other protocol.
        """
        reply = super().decode(status, headers, body)
        if not isinstance(reply, Failure):
            return reply
        if self.has_stand_in and status in _NO_PAGE:
            reply = evolve(reply, reason="wrong_endpoint")
        if reply.reason == "wrong_endpoint":
            return self._with_advice(reply)
        return reply

    def _with_advice(self, failure: Failure) -> Failure:
        """Return a failure with what to do about a protocol that the server does not take."""
        return evolve(failure, found=self._advice)

    @property
    def _advice(self) -> str:
        return f"use {backend_class(self.OTHER).__name__}"

    @property
    def stand_in(self) -> Backend | None:
        """The same backend in OpenAI's other protocol, if it has that."""
        if not self.has_stand_in:
            return None
        options: dict[str, Any] = {}
        for each in fields(DiscoverableBackend):
            if each.init and each.alias:
                options[each.alias] = getattr(self, each.name)
        options |= {"has_stand_in": False, "stands_in": True}
        options["name"] = self.name.removesuffix(self._suffix)
        other = backend_class(self.OTHER)(**options)
        assert isinstance(other, DiscoverableBackend)
        return other.named_by_protocol()

    @property
    def _suffix(self) -> str:
        return f" ({WIRES[self.API].protocol})"

    def named_by_protocol(self) -> Self:
        """Return the same backend with its protocol behind its name."""
        return evolve(self, name=f"{self.name}{self._suffix}")

    @property
    def lessons(self) -> Lessons:
        """Return what this process learned from the server, and the server's name."""
        lessons = super().lessons
        if self.server is None or self.is_secret(self.server.name):
            return lessons
        return evolve(lessons, server=self.server.name)


def inquiry(backend: HttpBackend) -> Generator[HttpRequest, Answer, Server | None]:
    """Ask for pages, one after another, until one identifies the server.

    Yields each request, and is sent the answer. Returns None if nobody answers.
    """
    base = backend.root
    top = base.removesuffix("/v1")
    unidentified: Server | None = None
    for page, read in (
        (f"{top}/props", _llama_cpp),
        (f"{base}/models", _of_list),
        (f"{top}/get_model_info", _sglang),
        (f"{top}/api/v0/models", _lm_studio),
        (f"{top}/api/version", _ollama),
    ):
        answer = yield backend.question(page)
        if answer is None:  # nobody is there, and the next page would take as long
            return unidentified
        unidentified = UNKNOWN
        server = read(object_in(answer), backend.model)
        if server is None:
            continue
        if server.name == "vLLM":
            answer = yield backend.question(f"{top}/version")
            version = object_in(answer or b"").get("version")
            return _named("vLLM", version, server)
        return server
    return unidentified


def _window(value: Any) -> Capabilities:
    """Return a window of tokens as a capability; unknown if it is no number of tokens."""
    return Capabilities(window=value if is_whole(value, 1, MOST_TOKENS) else None)


def _named(kind: str, version: Any, server: Server) -> Server:
    """Return a server with its name: its kind, and its version if it says one."""
    name = kind
    if isinstance(version, str) and version.strip():
        name = f"{kind} {version}"
    return Server(name=label(name), prefill=server.prefill, known=server.known)


def _llama_cpp(page: Mapping[str, Any], model: str) -> Server | None:
    """Read /props [llama.cpp, tools/server/README.md].

    It goes on from a trailing turn unless told otherwise (#13174, #13608), and whatever it was told
    where the request says `continue_final_message` (#23012); builds before that take no notice of
    the flag. Whether one repeats the turn (those before #23089 did) shows in the answer. Its
    Responses hide cuts [server-task.cpp, to_json_oaicompat_resp].
    """
    settings = page.get("default_generation_settings")
    if not isinstance(settings, dict) or not ("build_info" in page or "chat_template" in page):
        return None
    traits = Capabilities(hides_cuts=True).or_else(_window(settings.get("n_ctx")))
    modalities = page.get("modalities")
    if isinstance(modalities, dict) and isinstance(modalities.get("vision"), bool):
        traits = Capabilities(images=modalities["vision"]).or_else(traits)
    server = Server(name="", prefill="continue_final_message", known=traits)
    return _named("llama.cpp", page.get("build_info"), server)


def _of_list(page: Mapping[str, Any], model: str) -> Server | None:
    """Read /v1/models of vLLM and SGLang, which say there whose it is and `max_model_len`.

    Both take `continue_final_message` [vLLM, entrypoints/openai/protocol.py; sgl-project/sglang,
    likewise].
    """
    cards = [card for card in list_of(page.get("data")) if isinstance(card, dict)]
    for owner, name in (("vllm", "vLLM"), ("sglang", "SGLang")):
        owned = [card for card in cards if card.get("owned_by") == owner]
        if not owned:
            continue
        mine = [card for card in owned if model in (card.get("id"), card.get("root"))] or owned
        window = _window(mine[0].get("max_model_len"))
        return Server(name=name, prefill="continue_final_message", known=window)
    return None


def _sglang(page: Mapping[str, Any], model: str) -> Server | None:
    """Read /get_model_info of an SGLang that lists its model as another owner's."""
    if "tokenizer_path" not in page or "is_generation" not in page:
        return None
    if not isinstance(page.get("model_path"), str):
        return None
    return Server(name="SGLang", prefill="continue_final_message")


def _lm_studio(page: Mapping[str, Any], model: str) -> Server | None:
    """Read /api/v0/models [lmstudio.ai/docs/api/rest-api].

    A model that is not loaded has no window yet. How it goes on from a turn depends on the template
    of the model, and so it does with Ollama.
    """
    cards = [card for card in list_of(page.get("data")) if isinstance(card, dict)]
    if not any("compatibility_type" in card and "state" in card for card in cards):
        return None
    card = next((card for card in cards if card.get("id") == model), {})
    traits = _window(card.get("loaded_context_length"))
    if card.get("type") in ("llm", "vlm"):
        traits = Capabilities(images=card["type"] == "vlm").or_else(traits)
    return Server(name="LM Studio", known=traits)


def _ollama(page: Mapping[str, Any], model: str) -> Server | None:
    """Read /api/version [ollama, docs/api.md]."""
    version = page.get("version")
    if not isinstance(version, str):
        return None
    return _named("Ollama", version, Server(name=""))
