"""Colours, marks and axes shared by the plots. Nothing is told by colour alone."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes

# Okabe-Ito: told apart with the common colour deficiencies; hatches tell them apart in grey.
DTYPE_COLOURS = {"fp64": "#8c8c8c", "fp32": "#0072B2", "bf16": "#E69F00", "fp16": "#009E73"}
DTYPE_HATCHES = {"fp64": "", "fp32": "///", "bf16": "...", "fp16": "xxx"}
PASS_COLOUR, MISMATCH_COLOUR, GATE_COLOUR = "#0072B2", "#D55E00", "#333333"
TEXT_COLOUR, GRID_COLOUR, BAND_COLOUR = "#333333", "#dddddd", "#f5f6f8"
TICK_SIZE, TITLE_SIZE = 8.5, 10.0
# One width for all plots: the page scales them alike, so their text is one size.
WIDTH_INCHES = 11.5


def calm(ax: Axes) -> None:
    """Light horizontal-bar look: vertical grid behind the data, no box."""
    ax.set_axisbelow(True)
    ax.grid(axis="x", color=GRID_COLOUR, linewidth=0.7)
    ax.tick_params(labelsize=TICK_SIZE, colors=TEXT_COLOUR, length=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(GRID_COLOUR)
    ax.xaxis.label.set(color=TEXT_COLOUR, fontsize=TICK_SIZE + 0.5)


def title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=TITLE_SIZE, color=TEXT_COLOUR, pad=8)


def shade_every_other(ax: Axes, spans: Iterable[tuple[float, float]]) -> None:
    """Light bands that hold the rows of one strategy together."""
    for i, (low, high) in enumerate(spans):
        if i % 2 == 0:
            ax.axhspan(low, high, color=BAND_COLOUR, zorder=0, linewidth=0)
