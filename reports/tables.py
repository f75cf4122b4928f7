"""The report's tables and its verdict, as cells that Markdown and HTML both render."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import summary
from .records import DTYPES, Record, facts_text
from .summary import Group, LevelRow, Setting, Worst
from .text import (
    LEVEL_NAMES,
    NONE,
    NOT_FINITE,
    against_gate,
    bytes_text,
    error_text,
    joined,
    mesh_text,
    module_text,
    number_text,
    seconds_text,
    shape_text,
)


@dataclass(frozen=True)
class Span:
    """A run of text; `code` for names that must be read letter by letter."""

    text: str
    code: bool = False


@dataclass(frozen=True)
class Cell:
    """Spans on one line; `status` adds the status mark; `number` aligns right."""

    spans: tuple[Span, ...]
    status: str | None = None
    number: bool = False

    @property
    def long(self) -> bool:
        """Prose that needs a wide column to be read."""
        return sum(len(span.text) for span in self.spans) > 40


@dataclass(frozen=True)
class Table:
    """`caption` says what all rows share."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: bool = False  # something in it needs attention


@dataclass(frozen=True)
class Verdict:
    """The first paragraph: `status` is the worst status that matters, `spans` the sentence."""

    status: str
    spans: tuple[Span, ...]


def plain(text: str) -> Cell:
    return Cell((Span(text),))


def prose(text: str | None) -> Cell:
    """A sentence of the harness: what it puts in backticks is code here too."""
    parts = (text or NONE).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner
        return plain(text or NONE)
    return Cell(tuple(Span(part, code=i % 2 == 1) for i, part in enumerate(parts) if part))


def code(text: str) -> Cell:
    return Cell((Span(text, code=True),)) if text != NONE else plain(text)


def number(text: str) -> Cell:
    return Cell((Span(text),), number=True)


def codes(texts: Iterable[str]) -> Cell:
    spans: list[Span] = []
    for text in texts:
        spans += [Span(", ")] if spans else []
        spans.append(Span(text, code=True))
    return Cell(tuple(spans) or (Span(NONE),))


def verdict(records: list[Record]) -> Verdict:
    """Counts by status, then the worst figure of each gate with its place."""
    counts = summary.status_counts(records)
    status, opening = _opening(counts)
    listed = ", ".join(f"{n} {s}" for s, n in counts.items())
    total = f"{len(records)} row{'s' if len(records) != 1 else ''}"
    spans = [Span(f"{opening} {total}: {listed}.")]
    for name, label in (
        ("logic", "Worst logic error (relative L2, fp64)"),
        ("precision", "Worst precision ratio (to the single-device error)"),
    ):
        spans += _worst_sentence(label, name, summary.worst_gate(records, name))
    return Verdict(status, tuple(spans))


def _opening(counts: dict[str, int]) -> tuple[str, str]:
    if counts["mismatch"]:
        return "mismatch", "At least one distributed run does not equal the single-device run."
    if counts["error"]:
        return "error", "Some runs broke before they could be judged."
    if not counts["pass"]:
        return "failed", "Nothing is proved: no row passed."
    if counts["failed"]:
        return "pass", "Every run that was possible equals the single-device run; some requests could not be served."
    return "pass", "Every run equals the single-device run."


def _worst_sentence(label: str, name: str, worst: Worst | None) -> list[Span]:
    if worst is None:
        return [Span(f" {label}: not recorded.")]
    gate, record = worst.gate, worst.record
    figure = error_text(gate.worst) if name == "logic" else _ratio_text(gate.worst)
    return [
        Span(f" {label}: {figure} (gate {gate.limit:.5g}, {gate.status}) in "),
        Span(module_text(gate.module), code=True),
        Span(" of "),
        Span(record.strategy, code=True),
        Span(f" ({mesh_text(record)}, {record.dtype} row, {record.inputs}, {_steps(record)})."),
    ]


def _ratio_text(ratio: float | None) -> str:
    return NOT_FINITE if ratio is None else f"{ratio:.4f}"


def _steps(record: Record) -> str:
    return f"{record.steps} step{'s' if record.steps != 1 else ''}"


def setting_caption(setting: Setting) -> str:
    parts = [setting.model, shape_text(setting.shape), f"mask {setting.mask}"]
    parts += [f"attention {setting.attention}", f"communicator {setting.comm}"]
    if setting.command != "verify":
        parts.insert(0, setting.command)
    return " · ".join(parts)


SUMMARY_COLUMNS = (
    "strategy",
    "mesh",
    "dtype",
    "inputs",
    "steps",
    "rows",
    "logic error / gate (relative L2, fp64)",
    "precision ratio / gate (× single-device error)",
    "worst module",
    "bytes sent per rank (max)",
    "messages per rank (max)",
    "peak tensor bytes (max over ranks)",
    "peak K/V bytes (max over ranks)",
    "step time (median)",
    "status",
)


def summary_tables(records: list[Record]) -> list[Table]:
    return [
        Table(
            setting_caption(setting),
            SUMMARY_COLUMNS,
            tuple(_summary_row(group) for group in groups),
            marked=any({"mismatch", "error"} & group.statuses.keys() for group in groups),
        )
        for setting, groups in summary.settings(records).items()
    ]


def _summary_row(group: Group) -> tuple[Cell, ...]:
    first, step, messages = group.first, group.step, group.counter("messages")
    return (
        code(first.strategy),
        plain(mesh_text(first)),
        plain(first.dtype),
        plain(joined([r.inputs for r in group.records])),
        number(_steps_list(group)),
        number(str(len(group.records))),
        number(_gate_text(group.worst("logic"))),
        number(_gate_text(group.worst("precision"))),
        _worst_module(group),
        number(bytes_text(group.counter("bytes_sent"))),
        number(NONE if messages is None else str(messages)),
        number(bytes_text(group.counter("peak_tensor_bytes"))),
        number(bytes_text(group.counter("peak_key_value_bytes"))),
        number(seconds_text(step.median if step else None)),
        _status_cell(group),
    )


def _steps_list(group: Group) -> str:
    return ", ".join(map(str, sorted({r.steps for r in group.records})))


def _gate_text(worst: Worst | None) -> str:
    return NONE if worst is None else against_gate(worst.name, worst.gate.worst, worst.gate.limit)


def _worst_module(group: Group) -> Cell:
    worst = group.worst_of_gates
    if worst is None:
        return plain(NONE)
    return Cell((Span(module_text(worst.gate.module), code=True), Span(f" ({worst.name})")))


def _status_cell(group: Group) -> Cell:
    counts = group.statuses
    worst = next(iter(counts))
    text = worst if len(counts) == 1 else ", ".join(f"{n} {s}" for s, n in counts.items())
    return Cell((Span(text),), status=worst)


def incident_tables(records: list[Record]) -> list[Table]:
    """Mismatches, errors and failed rows, by setting; only those that occur."""
    tables = []
    for status, caption, columns, row in (
        ("mismatch", "Mismatches: a gate was left", MISMATCH_COLUMNS, _mismatch_row),
        ("error", "Errors: something broke while running", ERROR_COLUMNS, _error_row),
        ("failed", "Failed: the strategy cannot run this request", FAILED_COLUMNS, _failed_row),
    ):
        groups = summary.incidents(records, status)
        for setting, same in summary.grouped(groups, lambda g: summary.setting_of(g.first)).items():
            heading = f"{caption} · {setting_caption(setting)}"
            tables.append(Table(heading, columns, tuple(row(g) for g in same), marked=status != "failed"))
    return tables


_WHERE_COLUMNS = ("strategy", "mesh", "dtype", "inputs", "steps", "rows")
MISMATCH_COLUMNS = (
    *_WHERE_COLUMNS,
    "logic error / gate (relative L2, fp64)",
    "precision ratio / gate (× single-device error)",
    "first failing module",
    "rank",
    "plan entries",
    "hint",
    "reason",
)
ERROR_COLUMNS = (*_WHERE_COLUMNS, "module", "rank", "plan entries", "reason")
FAILED_COLUMNS = (*_WHERE_COLUMNS, "reason")


def _where_cells(group: Group) -> tuple[Cell, ...]:
    first = group.first
    return (
        code(first.strategy),
        plain(mesh_text(first)),
        plain(first.dtype),
        plain(joined([r.inputs for r in group.records])),
        number(_steps_list(group)),
        number(str(len(group.records))),
    )


def _place_cells(group: Group) -> tuple[Cell, Cell, Cell]:
    """Module, rank and plan entries: as localised, else the module of the gate that was left."""
    failure = group.first.first_failure
    if failure is not None:
        rank = NONE if failure.rank is None else str(failure.rank)
        return code(module_text(failure.module)), number(rank), codes(failure.plan_entries)
    worst = group.worst_of_gates
    left = worst is not None and worst.gate.status == "mismatch"
    return code(module_text(worst.gate.module)) if worst and left else plain(NONE), number(NONE), plain(NONE)


def _mismatch_row(group: Group) -> tuple[Cell, ...]:
    failure = group.first.first_failure
    return (
        *_where_cells(group),
        number(_gate_text(group.worst("logic"))),
        number(_gate_text(group.worst("precision"))),
        *_place_cells(group),
        prose(failure.hint if failure else None),
        prose(group.first.reason),
    )


def _error_row(group: Group) -> tuple[Cell, ...]:
    return (*_where_cells(group), *_place_cells(group), prose(group.first.reason or "no reason recorded"))


def _failed_row(group: Group) -> tuple[Cell, ...]:
    return (*_where_cells(group), prose(group.first.reason))


MODULE_COLUMNS = (
    "gate (dtype)",
    "level",
    "module → output",
    "figure / gate",
    "error (relative L2)",
    "single-device error (relative L2)",
    "max abs",
    "max rel",
    "cosine",
    "PSNR (dB)",
    "worst index",
    "rank",
    "mesh",
    "inputs",
    "steps",
    "status",
)


def module_tables(records: list[Record]) -> list[Table]:
    """Per strategy its worst modules."""
    return [
        Table(
            strategy,
            MODULE_COLUMNS,
            tuple(_module_row(row) for row in rows),
            marked=any(row.level.status == "mismatch" for row in rows),
        )
        for strategy, rows in summary.worst_modules(records).items()
    ]


def _module_row(row: LevelRow) -> tuple[Cell, ...]:
    level, record = row.level, row.record
    if level.gate == "precision" and level.ratio is None and level.status == "pass":
        figure = f"{NONE} / {level.limit:.5g}"
    else:
        figure = against_gate(level.gate, level.figure, level.limit)
    return (
        plain(f"{level.gate} ({row.dtype})"),
        plain(LEVEL_NAMES[level.level]),
        Cell((Span(module_text(level.module), code=True), Span(" → "), Span(level.output, code=True))),
        number(figure),
        number(error_text(level.error)),
        number(number_text(level.single_error)),
        number(number_text(level.max_abs, NOT_FINITE)),
        number(number_text(level.max_rel, NOT_FINITE)),
        number(NOT_FINITE if level.cosine is None else f"{level.cosine:.6g}"),
        number(number_text(level.psnr_db)),
        plain(f"[{', '.join(map(str, level.worst_index))}]"),
        number(NONE if level.rank is None else str(level.rank)),
        plain(mesh_text(record)),
        plain(record.inputs),
        number(str(record.steps)),
        Cell((Span(level.status),), status=level.status),
    )


def dtypes_of(records: list[Record]) -> list[str]:
    present = {r.dtype for r in records}
    return [d for d in DTYPES if d in present]


def provenance_tables(records: list[Record]) -> list[Table]:
    """Where the rows come from: environments, then models."""
    environments = [
        (
            plain(facts_text(origin.versions)),
            code(origin.commit or NONE),
            plain(facts_text(origin.machine) or NONE),
            number(str(origin.threads)),
            plain(origin.comm),
            plain(_span_of_time(rows)),
            number(str(len(rows))),
        )
        for origin, rows in summary.origins(records).items()
    ]
    models = summary.grouped(records, lambda r: (r.model, r.checkpoint_hash))
    return [
        Table(
            "Environments",
            ("versions", "commit", "machine", "threads", "communicator", "started", "rows"),
            tuple(environments),
        ),
        Table(
            "Models",
            ("model", "checkpoint hash", "dtypes", "rows"),
            tuple(
                (code(model), code(digest or NONE), plain(", ".join(dtypes_of(rows))), number(str(len(rows))))
                for (model, digest), rows in models.items()
            ),
        ),
    ]


def _span_of_time(rows: list[Record]) -> str:
    # ISO 8601 in UTC sorts as text.
    first, last = min(r.started for r in rows), max(r.started for r in rows)
    return first if first == last else f"{first} to {last}"


def command_lines(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(r.command_line for r in records))
