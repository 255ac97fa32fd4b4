"""How well one colour can be told from another, as WCAG measures it."""

from __future__ import annotations

from collections.abc import Sequence

Colour = str | Sequence[float]
"""`#rrggbb`, `rgb(r, g, b)`, or the red, green and blue from 0 to 255."""


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    light, dark = sorted((_luminance(channels_of(one)), _luminance(channels_of(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def channels_of(colour: Colour) -> Sequence[float]:
    """Return the red, green and blue of a colour."""
    if not isinstance(colour, str):
        return colour
    if colour.startswith("#"):
        return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    channels = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")]
    assert len(channels) == 3, colour
    return channels


def _luminance(channels: Sequence[float]) -> float:
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (each / 255 for each in channels)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
