"""Records to the report's files, in memory: name -> bytes. Nothing is written here."""

from __future__ import annotations

import base64
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from . import plots, tables
from .records import Record
from .rows_csv import rows_csv
from .tables import Cell, Span

# Every name this package ever writes: what a later run may replace or remove.
OWN_FILES = ("report.md", "report.html", "rows.csv", *(spec.file for spec in plots.SPECS))

# A sign beside the word: the status also reads in grey and on paper.
STATUS_SIGNS = {"pass": "✓", "mismatch": "✗", "failed": "⊘", "error": "!"}


def report_files(records: list[Record], title: str) -> dict[str, bytes]:
    """All files of one report; a plot without data has none."""
    drawn = plots.draw_all(records)
    context = {
        "title": title,
        "verdict": tables.verdict(records),
        "summary": tables.summary_tables(records),
        "incidents": tables.incident_tables(records),
        "modules": tables.module_tables(records),
        "provenance": tables.provenance_tables(records),
        "command_lines": tables.command_lines(records),
        "plots": drawn,
        "signs": STATUS_SIGNS,
    }
    files = {plot.spec.file: plot.png for plot in drawn if plot.png is not None}
    files["rows.csv"] = rows_csv(records).encode()
    files["report.html"] = _environment(html=True).get_template("report.html.j2").render(context).encode()
    files["report.md"] = _environment(html=False).get_template("report.md.j2").render(context).encode()
    return files


def _environment(html: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = (
        {"cell": html_cell, "spans": html_spans, "data_uri": data_uri}
        if html
        else {"cell": markdown_cell, "spans": markdown_spans, "md": markdown_text, "row": markdown_row}
    )
    environment.filters.update(filters)
    return environment


def data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def html_spans(spans: tuple[Span, ...]) -> Markup:
    return Markup("").join(_html_code(s.text) if s.code else escape(s.text) for s in spans)


def _html_code(text: str) -> Markup:
    # Module names are long and have dots: they may break there and after underscores, never be cut.
    parts = re.split(r"(?<=[._])", text) if "." in text else [text]
    return Markup("<code>{}</code>").format(Markup("<wbr>").join(escape(part) for part in parts))


def html_cell(cell: Cell) -> Markup:
    inner = html_spans(cell.spans)
    if cell.status is None:
        return inner
    sign = STATUS_SIGNS[cell.status]
    return Markup('<span class="status {}"><span aria-hidden="true">{}</span> {}</span>').format(
        cell.status, sign, inner
    )


def markdown_text(text: str) -> str:
    """Text that Markdown leaves as it is, on one line, inside a table too.

    An underscore inside a word and a bracket that starts no link are literal already; escaping
    them would only make the source harder to read.
    """
    return re.sub(r"([\\`*<>|&]|(?<!\w)_|_(?!\w)|\](?=[(\[:]))", r"\\\1", " ".join(text.split()))


def markdown_spans(spans: tuple[Span, ...]) -> str:
    return "".join(_markdown_span(span) for span in spans)


def _markdown_span(span: Span) -> str:
    if not span.code:
        # Spaces at the ends separate spans: only the inside is folded.
        lead, trail = span.text[: 1 if span.text[:1] == " " else 0], " " if span.text[1:].endswith(" ") else ""
        return lead + markdown_text(span.text) + trail
    # A code span cannot hold a backtick of its own length; a table cell ends at any bare pipe.
    text = " ".join(span.text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text else ""


def markdown_cell(cell: Cell) -> str:
    inner = markdown_spans(cell.spans)
    return inner if cell.status is None else f"{STATUS_SIGNS[cell.status]} {inner}"


def markdown_row(cells: tuple[Cell, ...]) -> str:
    return "| " + " | ".join(markdown_cell(cell) for cell in cells) + " |"
