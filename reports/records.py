"""Reading and validating record files (JSON lines, one row a line).

The reader refuses what it does not know, by name and with `file:line`, because a report that
silently skipped a field would look like a proof it is not. A key marked nullable in the schema
may also be absent: since unknown keys are refused, a misspelt one cannot hide behind that.

One reading of `null` goes beyond "not recorded": JSON has no NaN or infinity and the writer puts
`null` for them, so a measured figure (an error, a ratio, a max-abs) may be null and then means
"not finite". A gate that passed cannot have such a figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .fields import Fields, InputError

SCHEMA = "shardproof.record/2"
STATUSES = ("pass", "mismatch", "failed", "error")
GATE_STATUSES = ("pass", "mismatch")
DTYPES = ("fp64", "fp32", "bf16", "fp16")
GATES = ("logic", "precision")
LEVELS = ("module", "block", "end_to_end", "diffusers")


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate's verdict: `worst` is a relative L2 error (logic) or a ratio (precision)."""

    status: str
    limit: float
    worst: float | None  # None: not finite
    module: str


@dataclass(frozen=True, slots=True)
class Level:
    """One comparison. `limit` bounds `error` for the logic gate and `ratio` for precision."""

    gate: str
    level: str
    module: str
    output: str
    error: float | None
    single_error: float | None
    ratio: float | None
    limit: float
    status: str
    max_abs: float | None
    max_rel: float | None
    cosine: float | None
    psnr_db: float | None
    worst_index: tuple[int, ...]
    rank: int | None

    @property
    def figure(self) -> float | None:
        """The number that `limit` bounds."""
        return self.error if self.gate == "logic" else self.ratio


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a mismatch starts, as the harness localised it."""

    module: str
    rank: int | None
    plan_entries: tuple[str, ...]
    hint: str | None


@dataclass(frozen=True, slots=True)
class RankCounters:
    rank: int
    bytes_sent: int
    messages: int
    peak_tensor_bytes: int
    weight_bytes: int
    peak_key_value_bytes: int


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds; `what` says what they time."""

    median: float
    min: float
    max: float
    n: int
    what: str


@dataclass(frozen=True, slots=True)
class Record:
    """One row. `source` is `file:line`, the file without its folder."""

    source: str
    command: str
    model: str
    checkpoint_hash: str
    strategy: str
    mesh: tuple[tuple[str, int], ...]
    ranks: int
    comm: str
    dtype: str
    attention: str
    shape: tuple[tuple[str, int], ...]
    inputs: str
    steps: int
    seed: int
    mask: str
    status: str
    reason: str | None
    logic: Gate | None
    precision: Gate | None
    levels: tuple[Level, ...]
    first_failure: Failure | None
    per_rank: tuple[RankCounters, ...]
    wire_cost_bytes: tuple[int, ...] | None
    bytes_read: int | None
    step: StepTime | None
    versions: tuple[tuple[str, str], ...]
    commit: str
    machine: tuple[tuple[str, str], ...]
    threads: int
    started: str
    command_line: str

    def gate(self, name: str) -> Gate | None:
        return self.logic if name == "logic" else self.precision


def _gate(fields: Fields, figure: str) -> Gate:
    gate = Gate(
        status=fields.choice("status", GATE_STATUSES),
        limit=fields.number("limit"),
        worst=fields.measured(figure),
        module=fields.text("module"),
    )
    if gate.worst is None and gate.status == "pass":
        fields.refuse(figure, "a gate that passed needs a finite figure, got null")
    fields.done()
    return gate


def _level(fields: Fields) -> Level:
    level = Level(
        gate=fields.choice("gate", GATES),
        level=fields.choice("level", LEVELS),
        module=fields.text("module"),
        output=fields.text("output"),
        error=fields.measured("error"),
        single_error=fields.nullable("single_error", fields.number),
        ratio=fields.nullable("ratio", fields.number),
        limit=fields.number("limit"),
        status=fields.choice("status", GATE_STATUSES),
        max_abs=fields.measured("max_abs"),
        max_rel=fields.measured("max_rel"),
        cosine=fields.measured("cosine"),
        psnr_db=fields.nullable("psnr_db", fields.number),
        worst_index=fields.integers("worst_index"),
        rank=fields.nullable("rank", fields.integer),
    )
    if level.error is None and level.status == "pass":
        fields.refuse("error", "a comparison that passed needs a finite error, got null")
    fields.done()
    return level


def _failure(fields: Fields) -> Failure:
    failure = Failure(
        module=fields.text("module"),
        rank=fields.nullable("rank", fields.integer),
        plan_entries=fields.texts("plan_entries"),
        hint=fields.nullable("hint", fields.text),
    )
    fields.done()
    return failure


def _rank_counters(fields: Fields) -> RankCounters:
    names = ("rank", "bytes_sent", "messages", "peak_tensor_bytes", "weight_bytes", "peak_key_value_bytes")
    counters = RankCounters(*(fields.integer(name) for name in names))
    fields.done()
    return counters


def _step_time(fields: Fields) -> StepTime:
    step = fields.inner("step_s")
    time = StepTime(
        step.number("median"), step.number("min"), step.number("max"), step.integer("n", 1), fields.text("what")
    )
    step.done()
    fields.done()
    return time


def parse_record(value: Any, where: str) -> Record:
    """One parsed line as a Record. `where` is `file:line`. Raises InputError."""
    fields = Fields(value, where)
    # The schema comes first: with another one, every later message would mislead.
    fields.choice("schema", (SCHEMA,))
    counters = fields.inner("counters")
    record = Record(
        source=Path(where).name,
        command=fields.text("command"),
        model=fields.text("model"),
        checkpoint_hash=fields.text("checkpoint_hash"),
        strategy=fields.text("strategy"),
        mesh=fields.counts("mesh", least=1),
        ranks=fields.integer("ranks", 1),
        comm=fields.text("comm"),
        dtype=fields.choice("dtype", DTYPES),
        attention=fields.text("attention"),
        shape=fields.counts("shape", required=("batch", "image_tokens", "text_tokens")),
        inputs=fields.text("inputs"),
        steps=fields.integer("steps"),
        seed=fields.integer("seed"),
        mask=fields.text("mask"),
        status=fields.choice("status", STATUSES),
        reason=fields.nullable("reason", fields.text),
        logic=fields.nullable("logic", lambda key: _gate(fields.inner(key), "worst")),
        precision=fields.nullable("precision", lambda key: _gate(fields.inner(key), "worst_ratio")),
        levels=tuple(_level(inner) for inner in fields.inners("levels")),
        first_failure=fields.nullable("first_failure", lambda key: _failure(fields.inner(key))),
        per_rank=tuple(_rank_counters(inner) for inner in counters.inners("per_rank")),
        wire_cost_bytes=counters.nullable("wire_cost_bytes", counters.integers),
        bytes_read=counters.nullable("bytes_read", counters.integer),
        step=fields.nullable("times", lambda key: _step_time(fields.inner(key))),
        versions=fields.facts("versions"),
        commit=fields.text("commit"),
        machine=fields.facts("machine"),
        threads=fields.integer("threads"),
        started=fields.text("started"),
        command_line=fields.text("command_line"),
    )
    counters.done()
    fields.done()
    _check_agreement(record, fields)
    return record


def _check_agreement(record: Record, fields: Fields) -> None:
    """Refuse rows whose status contradicts their own figures: the report would repeat the lie."""
    if record.status == "pass":
        for name in GATES:
            gate = record.gate(name)
            if gate is not None and gate.status != "pass":
                fields.refuse("status", f"the row says pass, but its {name} gate says {gate.status}")
    if record.status == "failed" and not record.reason:
        fields.refuse("reason", "a failed row needs its reason")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key '{next(k for k in keys if keys.count(k) > 1)}' appears twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_line(raw: bytes, where: str) -> Any:
    try:
        line = raw.decode("utf-8")
        value = json.loads(line, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        if "\\ud" in line.lower():
            # A lone surrogate parses but cannot be written again as UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeDecodeError:
        raise InputError(f"{where}: malformed line: not UTF-8") from None
    except UnicodeEncodeError:
        raise InputError(f"{where}: malformed line: lone surrogate in a string") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: malformed line: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise InputError(f"{where}: malformed line: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: malformed line: {error}") from None


def read_file(path: Path) -> list[Record]:
    """All rows of one file. Raises InputError on anything that is not understood."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not data.strip():
        raise InputError(f"{path}: empty, expected at least one record")
    # Split on \n only: str.splitlines would also cut at U+2028 inside a string.
    lines = data.removesuffix(b"\n").split(b"\n")
    records = []
    for number, raw in enumerate(lines, start=1):
        where = f"{path}:{number}"
        if not raw.strip():
            raise InputError(f"{where}: malformed line: blank")
        records.append(parse_record(_parse_line(raw, where), where))
    return records


def read_files(paths: Iterable[Path]) -> list[Record]:
    return [record for path in paths for record in read_file(path)]


def facts_text(facts: Iterable[tuple[str, Any]]) -> str:
    """`a=1, b=2`: the one way maps are shown in tables and in the csv."""
    return ", ".join(f"{key}={value}" for key, value in facts)
