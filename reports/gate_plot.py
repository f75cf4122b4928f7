"""Plot 1: every comparison against its gate, one lane per strategy and level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from . import style
from .records import DTYPES, LEVELS, Record
from .summary import grouped
from .text import LEVEL_NAMES

# A record may carry a gate's worst figure without its single comparisons; that is shown as a lane of its own.
ROW_WORST = "worst of row"
LANE_NAMES = {**LEVEL_NAMES, ROW_WORST: ROW_WORST}
LANE_ORDER = (*LEVELS, ROW_WORST)

LANE_INCHES, MARK_SPREAD = 0.26, 0.56


@dataclass(frozen=True)
class Point:
    """A mark: `figure` None is not finite."""

    strategy: str
    lane: str
    figure: float | None
    limit: float
    passed: bool


@dataclass(frozen=True)
class Panel:
    title: str
    axis: str
    points: list[Point]


def draw(records: list[Record]) -> Figure | None:
    panels = [panel for panel in _panels(records) if panel.points]
    if not panels:
        return None
    lanes = _lanes(records, panels)
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = rows * (1.25 + LANE_INCHES * len(lanes)) + 0.4
    figure = Figure(figsize=(style.WIDTH_INCHES, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for i, ax in enumerate(axes.flat):
        if i < len(panels):
            _draw_panel(ax, panels[i], lanes, labels=i % columns == 0)
        else:
            ax.set_visible(False)
    figure.legend(handles=_legend(), loc="outside upper right", ncols=3, frameon=False, fontsize=style.TICK_SIZE)
    return figure


def _panels(records: list[Record]) -> list[Panel]:
    panels = [
        Panel(
            "Logic gate, fp64", "relative L2 error against the fp64 reference (no unit, log)", _points(records, "logic")
        )
    ]
    for dtype in DTYPES:
        rows = [r for r in records if r.dtype == dtype]
        axis = f"error of the run / error of one device, both {dtype} (ratio, log)"
        panels.append(Panel(f"Precision gate, {dtype}", axis, _points(rows, "precision")))
    return panels


def _points(records: list[Record], gate: str) -> list[Point]:
    points: list[Point] = []
    for record in records:
        levels = [level for level in record.levels if level.gate == gate]
        for level in levels:
            passed = level.status == "pass"
            if level.figure is None and passed:
                continue  # a ratio that was not formed has no place on an axis
            points.append(Point(record.strategy, level.level, level.figure, level.limit, passed))
        summary = record.gate(gate)
        if not levels and summary is not None:
            points.append(Point(record.strategy, ROW_WORST, summary.worst, summary.limit, summary.status == "pass"))
    # The fp64 figures are attached to the row of every dtype: the same mark once is enough.
    return list(dict.fromkeys(points))


def _lanes(records: list[Record], panels: list[Panel]) -> dict[tuple[str, str], int]:
    """Lane -> y, strategies in order of appearance, levels from the smallest part to the whole."""
    present = {(p.strategy, p.lane) for panel in panels for p in panel.points}
    strategies = dict.fromkeys(r.strategy for r in records)
    ordered = [(s, lane) for s in strategies for lane in LANE_ORDER if (s, lane) in present]
    return {lane: y for y, lane in enumerate(ordered)}


@dataclass(frozen=True)
class Scale:
    """A log axis with two extra places: exact zeros at `zero`, figures that are not finite at `beyond`."""

    low: float
    high: float
    zero: float | None
    beyond: float | None

    def place(self, figure: float | None) -> float:
        if figure is None:
            return self.beyond if self.beyond is not None else self.high
        if figure <= 0:
            return self.zero if self.zero is not None else self.low
        return figure


def _scale(points: list[Point]) -> Scale:
    finite = [p.figure for p in points if p.figure is not None and p.figure > 0]
    limits = [p.limit for p in points if p.limit > 0]
    low, high = min(finite + limits, default=0.1), max(finite + limits, default=10.0)
    margin = max(1.25, (high / low) ** 0.06)
    low, high = low / margin, high * margin
    # The extra places lie one step (an eighth of the axis) outside.
    step = (high / low) ** 0.125
    zero = low / step if any(p.figure is not None and p.figure <= 0 for p in points) else None
    beyond = high * step if any(p.figure is None for p in points) else None
    return Scale(low, high, zero, beyond)


def _draw_panel(ax: Axes, panel: Panel, lanes: dict[tuple[str, str], int], labels: bool) -> None:
    scale = _scale(panel.points)
    ax.set_xscale("log")
    style.calm(ax)
    _draw_lanes(ax, lanes, labels)
    for lane, points in grouped(panel.points, lambda p: (p.strategy, p.lane)).items():
        _draw_lane(ax, scale, lanes[lane], points)
    _ticks(ax, scale)
    style.title(ax, panel.title)
    ax.set_xlabel(panel.axis)


def _draw_lanes(ax: Axes, lanes: dict[tuple[str, str], int], labels: bool) -> None:
    """Lane names on the left, the strategy's own name once, further left and bold."""
    ax.set_ylim(len(lanes) - 0.5, -0.5)
    ax.set_yticks(range(len(lanes)), [LANE_NAMES[lane] for _, lane in lanes])
    groups = grouped(lanes.items(), lambda item: item[0][0])
    style.shade_every_other(ax, [(g[0][1] - 0.5, g[-1][1] + 0.5) for g in groups.values()])
    ax.tick_params(axis="y", labelleft=labels)
    if labels:
        for strategy, group in groups.items():
            middle = (group[0][1] + group[-1][1]) / 2
            ax.annotate(
                strategy,
                (0, middle),
                xycoords=("axes fraction", "data"),
                xytext=(-72, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize=style.TICK_SIZE + 0.5,
                fontweight="bold",
                color=style.TEXT_COLOUR,
            )


def _draw_lane(ax: Axes, scale: Scale, y: int, points: list[Point]) -> None:
    limits = [scale.place(p.limit) for p in points]
    tight, wide = min(limits), max(limits)
    if wide > tight:
        ax.fill_betweenx([y - 0.5, y + 0.5], tight, wide, color=style.GATE_COLOUR, alpha=0.10, linewidth=0)
    for limit in {tight, wide}:
        ax.plot([limit, limit], [y - 0.5, y + 0.5], color=style.GATE_COLOUR, linestyle=(0, (4, 2)), linewidth=1.2)
    for passed in (True, False):
        chosen = [p for p in points if p.passed == passed]
        xs = [scale.place(p.figure) for p in chosen]
        ys = [y + _spread(i, len(chosen)) for i in range(len(chosen))]
        ax.scatter(xs, ys, **_mark(passed), zorder=3 if passed else 4)


def _spread(i: int, count: int) -> float:
    """Marks spread over the lane's height by the golden ratio: even, and the same every time."""
    return 0.0 if count == 1 else ((i * 0.6180339887 + 0.5) % 1 - 0.5) * MARK_SPREAD


def _mark(passed: bool) -> dict[str, Any]:
    if passed:
        return {"marker": "o", "s": 16, "facecolors": "none", "edgecolors": style.PASS_COLOUR, "linewidths": 0.9}
    return {"marker": "X", "s": 46, "facecolors": style.MISMATCH_COLOUR, "edgecolors": "white", "linewidths": 0.6}


def _ticks(ax: Axes, scale: Scale) -> None:
    places = _tick_places(scale.low, scale.high)
    names = {place: _tick_text(place) for place in places}
    if scale.zero is not None:
        names[scale.zero] = "0"
    if scale.beyond is not None:
        names[scale.beyond] = "NaN, inf"
    margin = (scale.high / scale.low) ** 0.04
    left = scale.low if scale.zero is None else scale.zero / margin
    right = scale.high if scale.beyond is None else scale.beyond * margin
    ax.set_xlim(left, right)
    ax.xaxis.set_major_locator(FixedLocator(sorted(names)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: names.get(x, "")))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def _tick_places(low: float, high: float) -> list[float]:
    """Whole decades, thinned to at most seven; 1-1.5-2-3-5-7 steps where there is hardly a decade."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if last - first >= 2:
        every = math.ceil((last - first + 1) / 7)
        return [10.0**e for e in range(first, last + 1, every)]
    steps = [1, 1.1, 1.2, 1.5, 2, 3, 5, 7] if high / low < 4 else [1, 1.5, 2, 3, 5]
    places = [round(s * 10.0**e, 12 - e) for e in range(first - 1, last + 1) for s in steps]
    return [p for p in places if low <= p <= high]


def _tick_text(place: float) -> str:
    if 1e-2 <= place < 1e4:
        return f"{place:g}"
    return f"{place:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _legend() -> list[Line2D]:
    passed = Line2D([], [], linestyle="none", marker="o", markerfacecolor="none", markeredgecolor=style.PASS_COLOUR)
    left = Line2D(
        [], [], linestyle="none", marker="X", markersize=8, color=style.MISMATCH_COLOUR, markeredgecolor="white"
    )
    gate = Line2D([], [], color=style.GATE_COLOUR, linestyle=(0, (4, 2)), linewidth=1.2)
    for handle, label in ((passed, "pass"), (left, "mismatch"), (gate, "gate")):
        handle.set_label(label)
    return [passed, left, gate]
