"""Read a page of HTML back: its elements, its words, and the data in it."""

from html.parser import HTMLParser
from typing import Any

import orjson


class Elements(HTMLParser):
    """The elements of some HTML with their attributes, its texts, and the JSON of its element
    `data`.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data: Any = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][1].get("id") == "data" and self.data is None:
            self.data = orjson.loads(data)
        self.texts.append(data)

    def of(self, name: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element with this tag."""
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def tags(self) -> set[str]:
        """Return the tags that occur."""
        return {tag for tag, _ in self.elements}

    @property
    def attributes(self) -> set[str]:
        """Return the names of attributes that occur."""
        return {name for _, attributes in self.elements for name in attributes}

    @property
    def words(self) -> str:
        """Return the whole text."""
        return "".join(self.texts)
