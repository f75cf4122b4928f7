"""`rows.csv`: every record on a line of its own, figures exact, units in the column names."""

from __future__ import annotations

import csv
import io
import operator
from collections.abc import Callable
from typing import Any

from .records import Record, facts_text


def _plain(*names: str) -> dict[str, Callable[[Record], Any]]:
    """Attributes that go into the csv under their own name."""
    return {name: operator.attrgetter(name) for name in names}


def _gate(name: str, attribute: str) -> Callable[[Record], Any]:
    return lambda r: getattr(r.gate(name), attribute) if r.gate(name) else None


def _most(counter: str) -> Callable[[Record], Any]:
    return lambda r: max((getattr(c, counter) for c in r.per_rank), default=None)


def _each(counter: str) -> Callable[[Record], Any]:
    """`rank:value` by rank, so that a reader need not trust the order."""
    return lambda r: " ".join(f"{c.rank}:{getattr(c, counter)}" for c in r.per_rank)


def _step(attribute: str) -> Callable[[Record], Any]:
    return lambda r: getattr(r.step, attribute) if r.step else None


def _failure(read: Callable[[Any], Any]) -> Callable[[Record], Any]:
    return lambda r: read(r.first_failure) if r.first_failure else None


_COUNTERS = ("bytes_sent", "messages", "peak_tensor_bytes", "weight_bytes", "peak_key_value_bytes")

COLUMNS: dict[str, Callable[[Record], Any]] = {
    **_plain("source", "command", "model", "checkpoint_hash", "strategy"),
    "mesh": lambda r: facts_text(r.mesh),
    **_plain("ranks", "comm", "dtype", "attention"),
    "shape": lambda r: facts_text(r.shape),
    **_plain("inputs", "steps", "seed", "mask", "status", "reason"),
    "logic_status": _gate("logic", "status"),
    "logic_error_relative_l2_fp64": _gate("logic", "worst"),
    "logic_limit_relative_l2": _gate("logic", "limit"),
    "logic_module": _gate("logic", "module"),
    "precision_status": _gate("precision", "status"),
    "precision_ratio": _gate("precision", "worst"),
    "precision_limit_ratio": _gate("precision", "limit"),
    "precision_module": _gate("precision", "module"),
    "comparisons": lambda r: len(r.levels),
    "comparisons_mismatched": lambda r: sum(level.status == "mismatch" for level in r.levels),
    "first_failure_module": _failure(lambda f: f.module),
    "first_failure_rank": _failure(lambda f: f.rank),
    "first_failure_plan_entries": _failure(lambda f: "; ".join(f.plan_entries)),
    "first_failure_hint": _failure(lambda f: f.hint),
    **{f"{c}_max_per_rank": _most(c) for c in _COUNTERS},
    **{f"{c}_by_rank": _each(c) for c in _COUNTERS},
    "wire_cost_bytes": lambda r: None if r.wire_cost_bytes is None else " ".join(map(str, r.wire_cost_bytes)),
    "bytes_read": lambda r: r.bytes_read,
    "step_time_median_s": _step("median"),
    "step_time_min_s": _step("min"),
    "step_time_max_s": _step("max"),
    "step_time_n": _step("n"),
    "step_time_what": _step("what"),
    "versions": lambda r: facts_text(r.versions),
    "commit": lambda r: r.commit,
    "machine": lambda r: facts_text(r.machine),
    "threads": lambda r: r.threads,
    "started": lambda r: r.started,
    "command_line": lambda r: r.command_line,
}


def rows_csv(records: list[Record]) -> str:
    """None becomes an empty cell; Python writes a float in the digits that read back to it."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in records:
        writer.writerow([read(record) for read in COLUMNS.values()])
    return buffer.getvalue()
