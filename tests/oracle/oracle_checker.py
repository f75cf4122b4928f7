"""What the check_*.py scripts share: makes a committed oracle again and compares.

The options come from the committed file's own metadata. Weights, inputs and config must be equal bit for bit; fp64 results
agree to 1e-12, and those that carry fp32 rounding to 1e-6 (relative L2). Exit status 1 and a line per difference otherwise.
"""

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

import oracle_maker

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
WEIGHTS = "diffusion_pytorch_model.safetensors"
ORACLE = "oracle.safetensors"
FP64_TOLERANCE = 1e-12
FP32_TOLERANCE = 1e-6


def tolerance(name):
    """For one tensor of the oracle file; None means bit-equal."""
    if name.startswith(("output_fp32", "output_fp64_casts", "sigmas_diffusers")):
        return FP32_TOLERANCE
    if name.startswith(("output_fp64", "sigmas_fp64", "latents_fp64")):
        return FP64_TOLERANCE
    return None


def compare_tensor(new, old, limit):
    """What differs, as text, or None."""
    if (new.dtype, new.shape) != (old.dtype, old.shape):
        return f"is {new.dtype} {list(new.shape)}, committed {old.dtype} {list(old.shape)}"
    if limit is None:
        return None if torch.equal(new, old) else "is not bit-equal"
    error = oracle_maker.relative_l2(new, old)
    return None if error <= limit else f"differs by {error:.2e}, allowed {limit:.0e}"


def compare_file(made, committed, name, limit):
    """Yields a line per tensor that differs; `limit` maps a tensor's name to its tolerance."""
    new, old = load_file(made / name), load_file(committed / name)
    for missing in sorted(new.keys() ^ old.keys()):
        yield f"{name}: {missing} is only in the {'new' if missing in new else 'committed'} file"
    for tensor in sorted(new.keys() & old.keys()):
        difference = compare_tensor(new[tensor], old[tensor], limit(tensor))
        if difference:
            yield f"{name}: {tensor} {difference}"


def differences(made, committed):
    """Yields a line per difference between two folders."""
    if json.loads((made / "config.json").read_text()) != json.loads((committed / "config.json").read_text()):
        yield "config.json: differs"
    yield from compare_file(made, committed, WEIGHTS, lambda name: None)
    yield from compare_file(made, committed, ORACLE, tolerance)


def main(family):
    """Checks tests/data/<family>-oracle, with dashes for underscores, against what make_<family>.py makes."""
    committed = DATA / f"{family.replace('_', '-')}-oracle"
    with safe_open(committed / ORACLE, "pt") as oracle:
        arguments = shlex.split(oracle.metadata()["arguments"])
    script = f"make_{family}.py"
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, HERE / script, "--out", folder, *arguments])
        if made.returncode != 0:
            print(f"check_{family}: {script} ended with status {made.returncode}")
            return 1
        found = list(differences(Path(folder), committed))
    for line in found:
        print(f"check_{family}: {line}")
    if not found:
        print(f"check_{family}: the committed oracle is what {script} makes ({shlex.join(arguments)})")
    return 1 if found else 0
