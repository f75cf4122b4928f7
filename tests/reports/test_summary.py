"""Worst cases, groups, incidents: the values that every format shows."""

from __future__ import annotations

import math

from rows import error_row, failed_row, level, mismatch_row, row, single_row

from reports import summary
from reports.records import parse_record


def read(*records):
    return [parse_record(record, f"r.jsonl:{i}") for i, record in enumerate(records, 1)]


def precision(ratio: float, limit: float, status: str = "pass") -> dict:
    return {"status": status, "worst_ratio": ratio, "limit": limit, "module": f"m{ratio}"}


def test_closeness():
    assert summary.closeness(0.5, 2.0) == 0.25
    assert summary.closeness(None, 2.0) == math.inf
    assert summary.closeness(0.0, 0.0) == 0.0
    assert summary.closeness(1e-300, 0.0) == math.inf


def test_worst_is_nearest_to_its_own_gate_and_a_mismatch_comes_first():
    wide, near = row(precision=precision(1.6, 1.91)), row(precision=precision(1.015, 1.02))
    worst = summary.worst_gate(read(wide, near), "precision")
    assert worst.gate.worst == 1.015  # 1.015/1.02 = 0.995 against 1.6/1.91 = 0.838
    left = row(status="mismatch", precision=precision(1.0, 1.02, "mismatch"))
    assert summary.worst_gate(read(wide, near, left), "precision").gate.worst == 1.0
    assert summary.worst_gate(read(failed_row()), "logic") is None


def test_rows_that_differ_only_in_inputs_steps_and_seed_are_one_group():
    records = read(
        row(),
        row(
            inputs="structured",
            steps=4,
            counters={
                "per_rank": [{"rank": 0, "bytes_sent": 9000, "messages": 30, "peak_tensor_bytes": 1, "weight_bytes": 1, "peak_key_value_bytes": 1}]
            },
        ),
        row(seed=7),
        row(dtype="fp32"),
        row(mesh={"ulysses": 4}, ranks=4),
        row(mask="padded"),
    )
    tables = summary.settings(records)
    assert [setting.mask for setting in tables] == ["none", "padded"]
    groups = next(iter(tables.values()))
    assert [(g.first.ranks, g.first.dtype, len(g.records)) for g in groups] == [
        (2, "fp32", 1),
        (2, "bf16", 3),
        (4, "bf16", 1),
    ]
    assert groups[1].counter("bytes_sent") == 9000
    assert groups[1].counter("weight_bytes") == 5 * 1024**2


def test_statuses_of_a_mixed_group_are_worst_first():
    group = next(iter(summary.settings(read(row(), row(seed=1), error_row(seed=2))).values()))[0]
    assert group.statuses == {"error": 1, "pass": 2}


def test_incidents_that_say_the_same_are_one():
    records = read(mismatch_row(), mismatch_row(inputs="structured"), failed_row(), failed_row(reason="other"))
    assert [len(g.records) for g in summary.incidents(records, "mismatch")] == [2]
    assert [g.first.reason for g in summary.incidents(records, "failed")] == [
        "[ulysses] 3969 tokens are not divisible by 2",
        "other",
    ]


def test_worst_modules_show_three_different_ones_for_each_gate_and_dtype():
    levels = [level(module=f"m{i}", error=float(f"{i}e-15")) for i in range(5)] + [level(module="m4", error=9e-15)]
    shown = summary.worst_modules(read(row(levels=levels), single_row(levels=[])))
    assert list(shown) == ["ulysses"]
    assert [(f.level.module, f.level.error, f.dtype) for f in shown["ulysses"]] == [
        ("m4", 9e-15, "fp64"),
        ("m3", 3e-15, "fp64"),
        ("m2", 2e-15, "fp64"),
    ]


def test_a_ratio_that_was_not_formed_is_no_cause_for_worry():
    absent = level(gate="precision", error=0.0, single_error=0.0, ratio=None, limit=1.02, module="exact")
    formed = level(gate="precision", error=1e-3, single_error=1e-3, ratio=1.0, limit=1.02, module="formed")
    shown = summary.worst_modules(read(row(levels=[absent, formed])))["ulysses"]
    assert [f.level.module for f in shown] == ["formed", "exact"]


def test_status_counts():
    counts = summary.status_counts(read(row(), row(), mismatch_row(), failed_row()))
    assert counts == {"pass": 2, "mismatch": 1, "failed": 1, "error": 0}
