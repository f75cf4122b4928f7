"""Reading: what is accepted, and every refusal with its place and name."""

from __future__ import annotations

import json

import pytest
from rows import error_row, failed_row, level, mismatch_row, row, single_row, write

from reports.fields import InputError
from reports.records import read_file, read_files

ALWAYS_REQUIRED = sorted(set(row()) - {"reason", "logic", "precision", "first_failure", "times"})


def refusal(tmp_path, *records) -> str:
    path = write(tmp_path / "r.jsonl", *records)
    with pytest.raises(InputError) as caught:
        read_file(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{tmp_path}/")


def changed(path: str, value, base=None) -> dict:
    """`row()` with the key at a dotted path replaced."""
    record = json.loads(json.dumps(base or row()))
    *parents, last = path.split(".")
    at = record
    for name in parents:
        at = at[int(name)] if isinstance(at, list) else at[name]
    if value is KeyError:
        del at[last]
    else:
        at[last] = value
    return record


def test_every_status_is_read(tmp_path):
    path = write(tmp_path / "r.jsonl", row(), single_row(), mismatch_row(), failed_row(), error_row())
    records = read_file(path)
    assert [r.status for r in records] == ["pass", "pass", "mismatch", "failed", "error"]
    first, single, mismatch, failed, _ = records
    assert first.source == "r.jsonl:1"
    assert first.mesh == (("ulysses", 2),)
    assert [c.bytes_sent for c in first.per_rank] == [1536, 1537]
    assert first.step.median == 0.012
    assert first.levels[0].figure == 3e-15 and first.levels[1].figure == 1.004
    assert single.per_rank == () and single.step is None
    assert mismatch.first_failure.plan_entries == ("transformer_blocks.*.attn.to_out.0: rowwise",)
    assert failed.reason == "[ulysses] 3969 tokens are not divisible by 2"


def test_nullable_keys_may_be_absent(tmp_path):
    record = row()
    for key in ("reason", "logic", "precision", "first_failure", "times"):
        del record[key]
    assert read_file(write(tmp_path / "r.jsonl", record))[0].logic is None


def test_a_last_line_without_newline_is_read(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row()) + "\n" + json.dumps(row()))
    assert len(read_file(path)) == 2


def test_line_separators_inside_strings_do_not_cut_lines(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row(command_line="a\u2028b"), ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_file(path)[0].command_line == "a\u2028b"


def test_files_are_read_in_order(tmp_path):
    paths = [write(tmp_path / name, row(seed=seed)) for name, seed in (("b.jsonl", 2), ("a.jsonl", 1))]
    assert [r.seed for r in read_files(paths)] == [2, 1]


def test_a_figure_that_is_not_finite_is_null_and_never_passes(tmp_path):
    mismatch = mismatch_row(levels=[level(error=None, max_abs=None, cosine=None, status="mismatch")])
    mismatch["logic"]["worst"] = None
    read = read_file(write(tmp_path / "r.jsonl", mismatch))[0]
    assert read.logic.worst is None and read.levels[0].error is None
    assert refusal(tmp_path, changed("logic.worst", None)) == (
        "r.jsonl:1: logic.worst: a gate that passed needs a finite figure, got null"
    )
    assert "levels[0].error: a comparison that passed" in refusal(tmp_path, changed("levels.0.error", None))


@pytest.mark.parametrize("key", ALWAYS_REQUIRED)
def test_each_required_field_is_named_when_missing(tmp_path, key):
    record = row()
    del record[key]
    assert refusal(tmp_path, row(), record) == f"r.jsonl:2: missing required field '{key}'"


@pytest.mark.parametrize(
    "path",
    [
        "shape.text_tokens",
        "logic.module",
        "precision.worst_ratio",
        "levels.1.limit",
        "levels.0.max_abs",
        "counters.per_rank",
        "counters.per_rank.1.weight_bytes",
        "times.what",
        "times.step_s.n",
    ],
)
def test_inner_required_fields(tmp_path, path):
    message = refusal(tmp_path, changed(path, KeyError))
    assert message.startswith("r.jsonl:1: missing required field '")
    assert message.endswith(path.rsplit(".", 1)[1] + "'")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "schema",
            "shardproof.record/9",
            'schema: unknown schema "shardproof.record/9", accepted: shardproof.record/2',
        ),
        ("status", "ok", 'status: unknown status "ok", accepted: pass, mismatch, failed, error'),
        ("dtype", "int8", 'dtype: unknown dtype "int8", accepted: fp64, fp32, bf16, fp16'),
        ("logic.status", "failed", 'logic.status: unknown status "failed", accepted: pass, mismatch'),
        ("levels.0.gate", "speed", 'levels[0].gate: unknown gate "speed", accepted: logic, precision'),
        (
            "levels.1.level",
            "layer",
            'levels[1].level: unknown level "layer", accepted: module, block, end_to_end, diffusers',
        ),
        ("extra", 1, "unknown field 'extra'"),
        ("levels.0.note", "x", "unknown field 'levels[0].note'"),
        ("counters.flops", 1, "unknown field 'counters.flops'"),
        ("ranks", "2", 'ranks: expected an integer >= 1, got "2"'),
        ("ranks", 0, "ranks: expected an integer >= 1, got 0"),
        ("ranks", True, "ranks: expected an integer >= 1, got true"),
        ("steps", 1.5, "steps: expected an integer >= 0, got 1.5"),
        ("mesh", {"tp": 0}, "mesh.tp: expected an integer >= 1, got 0"),
        ("mesh", [2], "mesh: expected an object, got [2]"),
        ("inputs", None, "inputs: expected a string, got null"),
        ("levels", {}, "levels: expected an array, got {}"),
        ("levels.0.error", "1e-15", 'levels[0].error: expected a finite number, got "1e-15"'),
        ("levels.0.worst_index", [0, -1], "levels[0].worst_index[1]: expected an integer >= 0, got -1"),
        ("counters.per_rank.1.bytes_sent", -1, "counters.per_rank[1].bytes_sent: expected an integer >= 0, got -1"),
        ("machine", {"cpu": ["a"]}, 'machine.cpu: expected a string or a number, got ["a"]'),
        ("precision.status", "mismatch", "status: the row says pass, but its precision gate says mismatch"),
    ],
)
def test_what_is_not_known_is_refused_by_name(tmp_path, path, value, message):
    assert refusal(tmp_path, changed(path, value)) == f"r.jsonl:1: {message}"


def test_a_failed_row_needs_its_reason(tmp_path):
    assert refusal(tmp_path, failed_row(reason=None)) == "r.jsonl:1: reason: a failed row needs its reason"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"schema": ', "malformed line: Expecting value at column 12"),
        (b"", "malformed line: blank"),
        (b"[1]", "line: expected an object, got [1]"),
        (b'{"a": NaN}', "malformed line: NaN is not JSON"),
        (b'{"a": 1, "a": 2}', "malformed line: key 'a' appears twice"),
        (b'{"a": "\xff"}', "malformed line: not UTF-8"),
        (rb'{"a": "\ud800"}', "malformed line: lone surrogate in a string"),
        (b"[" * 200_000, "malformed line: nested too deeply"),
    ],
)
def test_malformed_lines_are_named_by_file_and_line(tmp_path, line, message):
    path = tmp_path / "r.jsonl"
    path.write_bytes(json.dumps(row()).encode() + b"\n" + line + b"\n" + json.dumps(row()).encode() + b"\n")
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert str(caught.value) == f"{path}:2: {message}"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"  "])
def test_an_empty_file_is_refused(tmp_path, data):
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError, match="empty, expected at least one record"):
        read_file(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="nowhere.jsonl: cannot be read: No such file"):
        read_file(tmp_path / "nowhere.jsonl")
