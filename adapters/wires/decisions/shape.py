"""A shape of decisions: how a server takes the questions, and how it gives the answers.

Three companies have one each, and SGLang has its own on the path of OpenAI's, which refuses an
OpenAI body. So the place decides which shape is spoken, never the path.

Answers are read into one neutral form, whatever the shape: an object by the names of the questions,
which `fsm/replies/decisions/answers.py` describes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.replies.parts import MediaPart, TextPart, ToolCall, ToolResult
from rungwise.fsm.values.usage import Usage

Questions = Mapping[str, Mapping[str, Any]]
"""The questions by name, each with its `kind`, `instructions` and `labels`."""
Neutral = dict[str, Any]
"""The answers by name, in the neutral form."""

REFUSED: Final[Mapping[str, Any]] = {"refused": True}


class BlockedError(Exception):
    """Say that the provider refused the whole input; the argument is its word for the reason."""


class NoAnswersError(Exception):
    """Say that a body holds no answers of this shape."""


class Shape(ABC):
    """Write the body of a request, and read that of a response."""

    NAME: ClassVar[str]
    PATH: ClassVar[str]
    """The path after the base URL."""
    KINDS: ClassVar[Mapping[str, str]]
    """The words for the kinds of questions and answers."""

    @abstractmethod
    def body(self, model: str, send: Send, questions: Questions) -> Body:
        """Return the body of a request, without the caller's own parameters.

        Arguments:
            model: the model id that is sent.
            send: the attempt.
            questions: what it asks.
        """

    @abstractmethod
    def answers_in(self, value: Mapping[str, Any]) -> Neutral:
        """Return the answers of a body.

        Raises:
            BlockedError: the provider refused the whole input.
            NoAnswersError: the body is of another shape.
        """

    def usage_in(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the report of tokens under OpenAI's names."""
        return report

    def kind_of(self, word: object) -> object:
        """Return our name of a kind; what is unknown stays as it is, and fits no question."""
        for kind, own in self.KINDS.items():
            if word == own:
                return kind
        return word


def texts_and_media(send: Send) -> tuple[list[tuple[str, str]], list[MediaPart]]:
    """Return the texts of a conversation, each with its role, and the media in it."""
    texts: list[tuple[str, str]] = []
    media: list[MediaPart] = []
    for message in read_messages(send.messages):
        said: list[str] = []
        for part in message.parts:
            if isinstance(part, MediaPart):
                media.append(part)
            elif isinstance(part, TextPart):
                said.append(part.text)
            elif isinstance(part, ToolCall):
                said.append(f"{part.name}({part.arguments})")
            elif isinstance(part, ToolResult):
                said.append(part.text)
                media += part.media
        text = "\n".join(filter(None, said))
        if text:
            texts.append((message.role, text))
    return texts, media


def one_text(texts: list[tuple[str, str]]) -> str:
    """Return a conversation as one text; who said what stands before each, if there are several."""
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join([f"{role}: {text}" for role, text in texts])


def url_of(part: MediaPart) -> str:
    """Return the URL of a medium, or its data as one."""
    return part.url or f"data:{part.media_type or 'image/png'};base64,{part.data}"


NO_USAGE_REPORTED: Final = Usage(estimated=True)
"""The tokens of a reply without a report: there is no output to estimate them from."""
