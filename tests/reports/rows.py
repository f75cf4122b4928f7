"""Records made in code. `row()` is a passing ulysses row; keywords replace its top-level keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def level(**keys: Any) -> dict[str, Any]:
    return {
        "gate": "logic",
        "level": "module",
        "module": "transformer_blocks.0.attn.to_q",
        "output": "out",
        "error": 3e-15,
        "single_error": None,
        "ratio": None,
        "limit": 1e-12,
        "status": "pass",
        "max_abs": 1e-14,
        "max_rel": 2e-13,
        "cosine": 1.0,
        "psnr_db": None,
        "worst_index": [0, 1, 2],
        "rank": None,
        **keys,
    }


def rank(number: int, **keys: Any) -> dict[str, Any]:
    return {
        "rank": number,
        "bytes_sent": 1536 + number,
        "messages": 8,
        "peak_tensor_bytes": 3 * 1024**2,
        "weight_bytes": 5 * 1024**2,
        "peak_key_value_bytes": 300 * 1024,
        **keys,
    }


def row(**keys: Any) -> dict[str, Any]:
    precision = {"error": 6e-3, "single_error": 6e-3, "ratio": 1.004, "limit": 1.02}
    return {
        "schema": "shardproof.record/2",
        "command": "verify",
        "model": "flux1-oracle",
        "checkpoint_hash": "0123456789abcdef",
        "strategy": "ulysses",
        "mesh": {"ulysses": 2},
        "ranks": 2,
        "comm": "local",
        "dtype": "bf16",
        "attention": "kokkos_flash",
        "shape": {"batch": 1, "image_tokens": 48, "text_tokens": 24},
        "inputs": "randn",
        "steps": 1,
        "seed": 0,
        "mask": "none",
        "status": "pass",
        "reason": None,
        "logic": {"status": "pass", "limit": 1e-12, "worst": 3e-15, "module": "transformer_blocks.0.attn.to_q"},
        "precision": {"status": "pass", "worst_ratio": 1.004, "limit": 1.02, "module": "transformer_blocks.0"},
        "levels": [level(), level(gate="precision", level="block", module="transformer_blocks.0", **precision)],
        "first_failure": None,
        "counters": {"per_rank": [rank(0), rank(1)], "wire_cost_bytes": [1536, 1537], "bytes_read": None},
        "times": {"step_s": {"median": 0.012, "min": 0.011, "max": 0.02, "n": 5}, "what": "critical path over ranks"},
        "versions": {"shardproof": "0.1.0", "torch": "2.11.0", "kokkos": "3.4.01", "compiler": "g++ 12.2"},
        "commit": "abc123",
        "machine": {"cpu": "Example CPU", "cores": 2},
        "threads": 2,
        "started": "2026-01-01T00:00:00Z",
        "command_line": "shardproof verify --strategies ulysses",
        **keys,
    }


def single_row(**keys: Any) -> dict[str, Any]:
    """One device: no mesh, no counters per rank, no times."""
    counters = {"per_rank": [], "wire_cost_bytes": None, "bytes_read": None}
    return row(strategy="single", mesh={}, ranks=1, counters=counters, times=None, **keys)


def mismatch_row(**keys: Any) -> dict[str, Any]:
    module = "transformer_blocks.0.attn.to_out.0"
    return row(
        **{
            "strategy": "tp",
            "mesh": {"tp": 2},
            "dtype": "fp64",
            "status": "mismatch",
            "logic": {"status": "mismatch", "limit": 1e-12, "worst": 3.1e-2, "module": module},
            "precision": None,
            "levels": [level(), level(module=module, error=3.1e-2, status="mismatch", rank=1)],
            "first_failure": {
                "module": module,
                "rank": 1,
                "plan_entries": ["transformer_blocks.*.attn.to_out.0: rowwise"],
                "hint": "`to_out.0` looks like it should be rowwise",
            },
            **keys,
        }
    )


def failed_row(**keys: Any) -> dict[str, Any]:
    return _not_run(**{"status": "failed", "reason": "[ulysses] 3969 tokens are not divisible by 2", **keys})


def error_row(**keys: Any) -> dict[str, Any]:
    return _not_run(**{"status": "error", "reason": "[comm] rank 1 ended in all_to_all", **keys})


def _not_run(**keys: Any) -> dict[str, Any]:
    nothing = {"logic": None, "precision": None, "levels": [], "times": None}
    counters = {"per_rank": [], "wire_cost_bytes": None, "bytes_read": None}
    return row(**{**nothing, "counters": counters, **keys})


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path
