"""The figures as lines of text."""

from collections.abc import Iterable, Iterator

from benchmarks.figures import Figure, Section, Verdict

SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def told(value: float, unit: str) -> str:
    """Write a value with its unit, seconds in the unit that is read most easily."""
    if unit == "s":
        scale, unit = next((each for each in SCALES if abs(value) >= each[0]), SCALES[-1])
        value /= scale
    if unit == "×":
        return f"{number(value)} ×"
    return f"{number(value)} {unit}"


def number(value: float) -> str:
    """Write a number with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def lines(section: Section) -> Iterator[str]:
    """Write a section."""
    if section.figures:
        yield ""
        yield section.title
    for each in section.figures:
        yield f"  {each.who:<44} {_columns(each, section.unit)}".rstrip()
    for growth in section.growths:
        points = ", ".join(
            f"{size}: {told(value, 's')}"
            for size, value in zip(growth.sizes, growth.seconds, strict=True)
        )
        yield f"  growth: {growth.name:<36} slope {growth.slope:.2f}   {points}"


def _columns(figure: Figure, unit: str) -> str:
    ratio = "" if figure.ratio is None else f"{number(figure.ratio):>8} ×"
    cpu = "" if figure.cpu is None else f"   {told(figure.cpu, 's'):>8} CPU"
    return (
        f"{told(figure.median, unit):>12}   best {told(figure.best, unit):>12} "
        f"{ratio}{cpu}   {figure.note}"
    )


def table(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Write what was wanted, what was found, and whether that holds."""
    yield ""
    yield f"{'what':<72} {'figure':>12}   {'goal':>12}"
    for each in verdicts:
        wanted = f"{each.sense} {told(each.goal, each.unit)}"
        yield (
            f"{each.what:<72} {told(each.figure, each.unit):>12}   {wanted:>12}   "
            f"{'held' if each.held else 'MISSED'}"
        )
