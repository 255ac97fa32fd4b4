"""The growth curves as pictures: `python -m benchmarks.charts RESULTS DIR`, which needs
matplotlib.
"""

import json
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, ScalarFormatter

LINE, GUIDE = "#1f6feb", "#9aa4ae"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "benchmarks",
    "font.size": 8,
    "font.family": "sans-serif",
}
OWN = [
    {
        "color": LINE,
        "linewidth": 2.0,
        "linestyle": style,
    }
    for style in ("-", "--", ":", "-.")
]
OTHERS = [
    {"color": color, "linewidth": 1.2} for color in ("#24292f", "#c9510c", "#8250df", "#9aa4ae")
]
COLUMNS = 3


def growths(sections: list[dict[str, Any]], path: Path) -> None:
    """Draw one small panel for each growth, with a dashed guide for a cost that is the same for
    each unit.
    """
    wanted = [growth for section in sections for growth in section["growths"]]
    if not wanted:
        return
    rows = -(-len(wanted) // COLUMNS)
    figure, panels = plt.subplots(
        rows, COLUMNS, figsize=(9, 2.5 * rows), squeeze=False, layout="constrained"
    )
    for panel in panels.flat[len(wanted) :]:
        panel.set_visible(False)
    for panel, growth in zip(panels.flat, wanted, strict=False):
        _panel(panel, growth)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def _panel(panel: Any, growth: dict[str, Any]) -> None:
    sizes = growth["sizes"]
    times = [each * 1e3 for each in growth["seconds"]]
    panel.loglog(
        sizes,
        times,
        marker="o",
        markersize=3,
        color=LINE,
        linewidth=1.5,
    )
    panel.loglog(
        sizes,
        [times[-1] * size / sizes[-1] for size in sizes],
        color=GUIDE,
        linewidth=0.8,
        linestyle="--",
    )
    panel.set_title(f"{growth['name']}: slope {growth['slope']:.2f}", fontsize=9)
    panel.set_xlabel(growth["unit"])
    panel.set_ylabel("CPU time, ms")
    panel.grid(which="major", color="#e5e8eb", linewidth=0.6)
    panel.minorticks_off()
    panel.spines[["top", "right"]].set_visible(False)


def at_once(sections: list[dict[str, Any]], path: Path) -> None:
    """Draw the calls a second against how many there are at once, a line for each contestant."""
    wanted = {
        int(each["name"].rpartition(".")[2]): each
        for each in sections
        if each["name"].startswith("at_once.")
    }
    if len(wanted) < 2:
        return
    figure, panel = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    names = [each["who"] for each in wanted[min(wanted)]["figures"]]
    own = cycle(OWN)
    others = cycle(OTHERS)
    for who in names:
        is_own = "ungwise" in who
        rates = {
            size: each["best"]
            for size, section in wanted.items()
            for each in section["figures"]
            if each["who"] == who
        }
        points = {size: rate for size, rate in rates.items() if rate > 0}
        panel.loglog(
            list(points),
            list(points.values()),
            marker="o",
            markersize=3,
            label=who,
            **(next(own) if is_own else next(others)),
        )
    panel.set_xticks(list(wanted), [str(each) for each in wanted])
    panel.minorticks_off()
    panel.set_xlabel("calls at once, each answered after 50 ms")
    panel.set_ylabel("calls/s")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ScalarFormatter())
    panel.grid(which="major", color="#e5e8eb", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def main() -> None:
    """Draw what the results hold."""
    results = Path(sys.argv[1])
    folder = Path(sys.argv[2])
    sections = json.loads(results.read_text(encoding="utf-8"))["sections"]
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        growths(sections, folder / "growth.svg")
        at_once(sections, folder / "at_once.svg")


if __name__ == "__main__":
    main()
