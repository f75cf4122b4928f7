"""What the report says, as plain data: worst cases, groups of rows, incidents, provenance.

No text is laid out here, so that every figure in the report can be tested without a renderer.
Figures are ranked by how near they come to their own gate: 1.6 of 1.91 is calmer than 1.015 of 1.02.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from .records import DTYPES, GATES, STATUSES, Gate, Level, Record, StepTime

# The order in which a person must hear about them.
SEVERITY = ("error", "mismatch", "failed", "pass")
WORST_MODULES_SHOWN = 3

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def closeness(figure: float | None, limit: float) -> float:
    """figure / limit: above 1 is outside the gate, infinity for a figure that is not finite."""
    if figure is None:
        return math.inf
    if limit > 0:
        return figure / limit
    return 0.0 if figure <= limit else math.inf


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by key, in order of first appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True)
class Worst:
    """A gate's figure nearest to (or furthest beyond) its limit, and the row it comes from."""

    name: str
    gate: Gate
    record: Record

    @property
    def closeness(self) -> float:
        return closeness(self.gate.worst, self.gate.limit)


def worst_gate(records: Iterable[Record], name: str) -> Worst | None:
    found = [Worst(name, gate, r) for r in records if (gate := r.gate(name)) is not None]
    return max(found, key=_urgency, default=None)


def _urgency(worst: Worst) -> tuple[bool, float]:
    # The harness's verdict ranks before the figure: this package does not judge again.
    return worst.gate.status == "mismatch", worst.closeness


@dataclass(frozen=True)
class Group:
    """Rows that differ only in inputs, steps and seed; every figure is the worst of them."""

    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        return self.records[0]

    @property
    def statuses(self) -> dict[str, int]:
        """Counts, worst status first; only those that occur."""
        return {s: n for s in SEVERITY if (n := sum(r.status == s for r in self.records))}

    def worst(self, gate: str) -> Worst | None:
        return worst_gate(self.records, gate)

    @property
    def worst_of_gates(self) -> Worst | None:
        found = [w for name in GATES if (w := self.worst(name)) is not None]
        return max(found, key=_urgency, default=None)

    def counter(self, name: str) -> int | None:
        """The largest over ranks and rows of one of RankCounters' fields."""
        return max((getattr(c, name) for r in self.records for c in r.per_rank), default=None)

    @property
    def step(self) -> StepTime | None:
        return max((r.step for r in self.records if r.step), key=lambda t: t.median, default=None)


@dataclass(frozen=True)
class Setting:
    """What all rows of one summary table share."""

    command: str
    model: str
    shape: tuple[tuple[str, int], ...]
    mask: str
    attention: str
    comm: str


def setting_of(record: Record) -> Setting:
    return Setting(record.command, record.model, record.shape, record.mask, record.attention, record.comm)


def settings(records: Iterable[Record]) -> dict[Setting, list[Group]]:
    """Summary tables: groups of rows by strategy, mesh and dtype inside each setting."""

    def row_key(r: Record) -> tuple[Hashable, ...]:
        return r.strategy, r.mesh, r.ranks, r.dtype

    tables = {}
    for setting, rows in grouped(records, setting_of).items():
        groups = [Group(tuple(g)) for g in grouped(rows, row_key).values()]
        # A strategy's dtypes and meshes stay together even when the file interleaves them.
        order = list(dict.fromkeys(g.first.strategy for g in groups))
        groups.sort(key=lambda g: (order.index(g.first.strategy), g.first.ranks, g.first.mesh, _dtype(g.first)))
        tables[setting] = groups
    return tables


def _dtype(record: Record) -> int:
    return DTYPES.index(record.dtype)


def incidents(records: Iterable[Record], status: str) -> list[Group]:
    """Rows of one status that say the same thing (all but inputs, steps and seed), once each."""

    def key(r: Record) -> tuple[Hashable, ...]:
        f = r.first_failure
        where = (f.module, f.rank, f.plan_entries, f.hint) if f else None
        return setting_of(r), r.strategy, r.mesh, r.ranks, r.dtype, r.reason, where

    rows = [r for r in records if r.status == status]
    return [Group(tuple(g)) for g in grouped(rows, key).values()]


@dataclass(frozen=True)
class LevelRow:
    """One comparison with the row it belongs to. The logic gate is always taken in fp64."""

    record: Record
    level: Level

    @property
    def dtype(self) -> str:
        return "fp64" if self.level.gate == "logic" else self.record.dtype

    @property
    def urgency(self) -> tuple[bool, float]:
        level = self.level
        # A precision ratio may be absent because both errors are 0; that is no cause for worry.
        missing = level.figure is None and level.status == "pass"
        return level.status == "mismatch", 0.0 if missing else closeness(level.figure, level.limit)


def worst_modules(records: Iterable[Record]) -> dict[str, list[LevelRow]]:
    """Per strategy the comparisons nearest to their gates: for each gate and dtype the worst few,
    one a module, so that one bad module in forty rows does not hide the second one."""
    result = {}
    for strategy, rows in grouped(records, lambda r: r.strategy).items():
        found = [LevelRow(r, level) for r in rows for level in r.levels]
        shown: list[LevelRow] = []
        gates = grouped(found, lambda f: (GATES.index(f.level.gate), DTYPES.index(f.dtype)))
        for key in sorted(gates):
            by_module = grouped(gates[key], lambda f: (f.level.level, f.level.module, f.level.output))
            worst = [max(same, key=lambda f: f.urgency) for same in by_module.values()]
            worst.sort(key=lambda f: f.urgency, reverse=True)
            shown += worst[:WORST_MODULES_SHOWN]
        if shown:
            result[strategy] = shown
    return result


def status_counts(records: Iterable[Record]) -> dict[str, int]:
    rows = list(records)
    return {status: sum(r.status == status for r in rows) for status in STATUSES}


@dataclass(frozen=True)
class Origin:
    """One environment that produced rows."""

    versions: tuple[tuple[str, str], ...]
    commit: str
    machine: tuple[tuple[str, str], ...]
    threads: int
    comm: str


def origins(records: Iterable[Record]) -> dict[Origin, list[Record]]:
    return grouped(records, lambda r: Origin(r.versions, r.commit, r.machine, r.threads, r.comm))
