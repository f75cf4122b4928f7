"""The four plots. Each takes records and returns a Figure, or says why it is not drawn.

Figures are built without pyplot: no global state, no display. Everything that varies (order,
jitter, colours) is a function of the records alone, so that a second run writes the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from . import bars, gate_plot
from .records import Record

DPI = 130


@dataclass(frozen=True)
class PlotSpec:
    """A plot that the report may hold: its file, its heading and how it is made."""

    file: str
    title: str
    describe: str
    draw: Callable[[list[Record]], Figure | None]
    without_data: str


@dataclass(frozen=True)
class Plot:
    """A plot in one report; `png` is None when there was nothing to draw."""

    spec: PlotSpec
    png: bytes | None


SPECS = (
    PlotSpec(
        "error_vs_gate.png",
        "Error against gate",
        "Each mark is one comparison: a circle passed, a cross left its gate. The dashed line is the gate; "
        "where it differs between the comparisons of one lane it is a band from the tightest to the widest.",
        gate_plot.draw,
        "no row carries a gate's figures.",
    ),
    PlotSpec(
        "bytes_sent.png",
        "Bytes sent per rank",
        "The bar is the rank that sends most, in the row that sends most; "
        "a whisker goes down to that row's smallest rank.",
        bars.bytes_sent,
        "no row carries counters per rank.",
    ),
    PlotSpec(
        "memory.png",
        "Peak tensor bytes and weight bytes per rank",
        "The bar is the largest rank of the largest row; a whisker goes down to that row's smallest rank.",
        bars.memory,
        "no row carries counters per rank.",
    ),
    PlotSpec(
        "step_time.png",
        "Step time",
        "The bar is the median of the slowest row; the whisker spans that row's fastest and slowest step.",
        bars.step_time,
        "no row carries step times.",
    ),
)


def draw_all(records: list[Record]) -> list[Plot]:
    plots = []
    for spec in SPECS:
        figure = spec.draw(records)
        plots.append(Plot(spec, None if figure is None else _png(figure)))
    return plots


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    return buffer.getvalue()
