"""Plots 2 to 4: horizontal bars per strategy and mesh, one bar a dtype.

Rows of different models or shapes never share an axis: their bytes and times do not compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from . import style
from .records import DTYPES, Record
from .summary import grouped
from .text import bytes_text, bytes_unit, mesh_text, seconds_text, shape_text, time_unit

BAR_INCHES, AROUND_AXES_INCHES = 0.21, 0.85


@dataclass(frozen=True)
class Bar:
    """`value` with its whisker from `low` to `high`, in bytes or seconds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """One axes: bars by category (strategy, mesh) and dtype."""

    title: str
    axis: str
    bars: dict[tuple[str, str], dict[str, Bar]]


@dataclass(frozen=True)
class Unit:
    """How a quantity is scaled for an axis and written beside a bar."""

    of: Callable[[float], tuple[float, str]]
    text: Callable[[float], str]


BYTES = Unit(bytes_unit, lambda value: bytes_text(int(value)))
SECONDS = Unit(time_unit, seconds_text)


def bytes_sent(records: list[Record]) -> Figure | None:
    """More steps send more, so each number of steps has axes of its own."""
    name = "bytes sent per rank, largest rank"
    charts = [
        [_counter_chart(f"{title}, steps {steps}", rows, "bytes_sent", name)]
        for title, set_rows in _sets(records)
        for steps, rows in sorted(grouped(set_rows, lambda r: r.steps).items())
    ]
    return _figure(charts, BYTES)


def memory(records: list[Record]) -> Figure | None:
    pairs = [
        [
            _counter_chart(title, rows, "peak_tensor_bytes", "peak tensor bytes per rank, largest rank"),
            _counter_chart("", rows, "weight_bytes", "weight bytes per rank, largest rank"),
        ]
        for title, rows in _sets(records)
    ]
    return _figure(pairs, BYTES)


def step_time(records: list[Record]) -> Figure | None:
    charts = []
    for title, rows in _sets([r for r in records if r.step]):
        # What a time times is part of its meaning: another `what` is another axis.
        for what, timed in grouped(rows, lambda r: r.step.what if r.step else "").items():
            charts.append([Chart(title, f"step time, median: {what}", _categories(timed, _slowest))])
    return _figure(charts, SECONDS)


def _sets(records: list[Record]) -> list[tuple[str, list[Record]]]:
    sets = grouped(records, lambda r: (r.model, r.shape))
    return [(f"{model}: {shape_text(shape)}", rows) for (model, shape), rows in sets.items()]


def _counter_chart(title: str, rows: list[Record], counter: str, name: str) -> Chart:
    def bar(group: list[Record]) -> Bar | None:
        # The whisker compares ranks of one row; other rows have other inputs or seeds.
        rows = [[getattr(c, counter) for c in r.per_rank] for r in group if r.per_rank]
        most = max(rows, key=max, default=None)
        return Bar(max(most), min(most), max(most)) if most else None

    return Chart(title, name, _categories(rows, bar))


def _slowest(group: list[Record]) -> Bar:
    step = max((r.step for r in group if r.step), key=lambda t: t.median)
    return Bar(step.median, step.min, step.max)


def _categories(rows: list[Record], bar: Callable[[list[Record]], Bar | None]) -> dict[tuple[str, str], dict[str, Bar]]:
    order = list(dict.fromkeys(r.strategy for r in rows))
    rows = sorted(rows, key=lambda r: (order.index(r.strategy), r.ranks, r.mesh))
    result: dict[tuple[str, str], dict[str, Bar]] = {}
    for category, group in grouped(rows, lambda r: (r.strategy, mesh_text(r))).items():
        by_dtype = grouped(group, lambda r: r.dtype)
        bars = {d: b for d in DTYPES if d in by_dtype and (b := bar(by_dtype[d])) is not None}
        if bars:
            result[category] = bars
    return result


def _figure(charts: list[list[Chart]], unit: Unit) -> Figure | None:
    """Charts as rows of axes; those in one row share their categories."""
    charts = [row for row in charts if any(chart.bars for chart in row)]
    if not charts:
        return None
    columns = len(charts[0])
    counts = [sum(len(bars) for bars in row[0].bars.values()) + 0.6 * len(row[0].bars) for row in charts]
    height = BAR_INCHES * sum(counts) + AROUND_AXES_INCHES * len(charts) + 0.4
    figure = Figure(figsize=(style.WIDTH_INCHES, height), layout="constrained")
    # Ratios of the axes' insides, so that a bar is as thick in every one.
    axes = figure.subplots(len(charts), columns, sharey="row", squeeze=False, height_ratios=counts)
    dtypes: set[str] = set()
    for row, chart_row in zip(axes, charts, strict=True):
        for column, (ax, chart) in enumerate(zip(row, chart_row, strict=True)):
            _draw(ax, chart, unit, labels=column == 0)
            dtypes |= {d for bars in chart.bars.values() for d in bars}
    figure.legend(
        handles=[_patch(d) for d in DTYPES if d in dtypes],
        loc="outside upper right",
        ncols=len(dtypes),
        frameon=False,
        fontsize=style.TICK_SIZE,
    )
    return figure


def _patch(dtype: str) -> Patch:
    return Patch(**_look(dtype), label=dtype)


def _look(dtype: str) -> dict[str, Any]:
    return {
        "facecolor": style.DTYPE_COLOURS[dtype],
        "hatch": style.DTYPE_HATCHES[dtype],
        "edgecolor": "white",
        "linewidth": 0,
    }


def _draw(ax: Axes, chart: Chart, unit: Unit, labels: bool) -> None:
    """Categories top down; inside each, its dtypes; the value in words at the end of its bar."""
    style.calm(ax)
    flat = [bar for bars in chart.bars.values() for bar in bars.values()]
    factor, unit_name = unit.of(max(max(b.value, b.high) for b in flat))
    y, ticks, spans = 0.0, [], []
    for bars in chart.bars.values():
        top = y
        for dtype, bar in bars.items():
            _draw_bar(ax, y, dtype, bar, factor, unit)
            y += 1
        ticks.append((top + y - 1) / 2)
        spans.append((top - 0.8, y - 0.2))
        y += 0.6
    style.shade_every_other(ax, spans)
    ax.set_ylim(spans[-1][1], spans[0][0])
    names = [f"{strategy}  ({mesh})" for strategy, mesh in chart.bars]
    ax.set_yticks(ticks, names)
    ax.tick_params(axis="y", labelleft=labels)
    # Room on the right for the words beside the longest bar.
    longest = max(max(b.value, b.high) for b in flat) / factor
    ax.set_xlim(0, longest * 1.22 if longest > 0 else 1)
    ax.set_xlabel(f"{chart.axis} [{unit_name}]")
    style.title(ax, chart.title)


def _draw_bar(ax: Axes, y: float, dtype: str, bar: Bar, factor: float, unit: Unit) -> None:
    ax.barh(y, bar.value / factor, height=0.86, **_look(dtype), zorder=2)
    if bar.high > bar.low:
        below, above = (max(0.0, bar.value - bar.low) / factor, max(0.0, bar.high - bar.value) / factor)
        ax.errorbar(bar.value / factor, y, xerr=[[below], [above]], color="#111111", capsize=2.5, linewidth=1, zorder=3)
    ax.annotate(
        unit.text(bar.value),
        (max(bar.value, bar.high) / factor, y),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=style.TICK_SIZE - 1,
        color=style.TEXT_COLOUR,
    )
