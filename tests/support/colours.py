"""Contrast and distance of colours: by WCAG, and for readers who do not see every colour."""

from collections.abc import Sequence
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

Colour = str | Sequence[float]
"""`#rrggbb`, `rgb(r, g, b)`, or the red, green and blue from 0 to 255."""


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    light, dark = sorted(
        (_luminance(channels_of(one)), _luminance(channels_of(other))), reverse=True
    )
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
    return sum(
        weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), _linear(channels), strict=True)
    )


# Who lacks one kind of cones: Machado, Oliveira and Fernandes, "A Physiologically-based Model for
# Simulation of Color Vision Deficiency", IEEE TVCG 15 (6), 2009, the matrices for a severity of
# 1.0, on linear RGB.
DEFICIENCIES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
Lab = tuple[float, float, float]


def distance(one: Colour, other: Colour, deficiency: str = "") -> float:
    """Return how different two colours look, by CIEDE2000; black and white are 100 apart.

    Arguments:
        deficiency: the reader's colour deficiency, a name of `DEFICIENCIES`, or none.
    """
    return ciede2000(_lab(_seen(one, deficiency)), _lab(_seen(other, deficiency)))


def _seen(colour: Colour, deficiency: str) -> list[float]:
    linear = _linear(channels_of(colour))
    if not deficiency:
        return linear
    return [min(max(_dot(row, linear), 0.0), 1.0) for row in DEFICIENCIES[deficiency]]


def _linear(channels: Sequence[float]) -> list[float]:
    return [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (each / 255 for each in channels)
    ]


def _dot(row: Sequence[float], column: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(row, column, strict=True))


XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
"""From linear sRGB, under the light D65 (IEC 61966-2-1)."""


def _lab(linear: Sequence[float]) -> Lab:
    def root(ratio: float) -> float:
        return ratio ** (1 / 3) if ratio > (6 / 29) ** 3 else ratio / (3 * (6 / 29) ** 2) + 4 / 29

    x, y, z = (root(_dot(row, linear) / sum(row)) for row in XYZ)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one: Lab, other: Lab) -> float:
    """Return the difference of two colours of CIELAB (CIE 142-2001), in the form of Sharma, Wu and
    Dalal, 2005.
    """
    (l1, a1, b1), (l2, a2, b2) = one, other
    seventh = ((hypot(a1, b1) + hypot(a2, b2)) / 2) ** 7
    stretch = 1 + (1 - sqrt(seventh / (seventh + 25**7))) / 2
    c1 = hypot(a1 * stretch, b1)
    c2 = hypot(a2 * stretch, b2)
    h1, h2 = (degrees(atan2(b, a * stretch)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0.0 if not c1 * c2 else (h2 - h1 + 180) % 360 - 180
    middle = h1 + h2 if not c1 * c2 else (h1 + turn / 2) % 360
    lightness = (l1 + l2) / 2
    chroma = (c1 + c2) / 2
    waves = ((0.17, 1, -30), (-0.24, 2, 0), (-0.32, 3, 6), (0.20, 4, -63))
    weight = 1 - sum(size * cos(radians(times * middle + shift)) for size, times, shift in waves)
    by_l = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / sqrt(20 + (lightness - 50) ** 2))
    by_c = (c2 - c1) / (1 + 0.045 * chroma)
    by_h = 2 * sqrt(c1 * c2) * sin(radians(turn / 2)) / (1 + 0.015 * chroma * weight)
    swing = 60 * exp(-(((middle - 275) / 25) ** 2))
    rotation = -2 * sqrt(chroma**7 / (chroma**7 + 25**7)) * sin(radians(swing))
    return sqrt(by_l**2 + by_c**2 + by_h**2 + rotation * by_c * by_h)
