"""Runs a diffusers model wholly in float64.

`model.double()` alone does not do that: diffusers casts to float32 inside its forward passes (timestep embedding, rotary
embedding, ...), so the result is good to 1e-7 only. `lifted` redirects these casts to float64 while it is open, and
`NarrowTensors` records every tensor that is narrower than float64 all the same, so that a cast which is missed is an error
and not a slightly worse oracle.
"""

import contextlib
import sys
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

METHOD = (
    "torch in the modules that define the model's layers is a proxy in which float32 is float64; "
    "rotary tables that are made with the model are made again under it; "
    "Tensor.float is Tensor.double; a TorchDispatchMode found no floating tensor under float64"
)

_WIDER = {"float32": torch.float64, "float": torch.float64, "complex64": torch.complex128}
_WIDE_ENOUGH = {torch.float64, torch.complex128}


class _WideTorch:
    """Stands in for the `torch` module: the same attributes, but the names of float32 mean float64."""

    def __getattr__(self, name):
        return _WIDER[name] if name in _WIDER else getattr(torch, name)


def _wide_tables(model, stack):
    """Qwen-Image's rotary table is computed once, when the model is made: replaces it by one made under the lift."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "QwenEmbedRope":
                setattr(parent, name, type(child)(child.theta, child.axes_dim, child.scale_rope))
                stack.callback(setattr, parent, name, child)


@contextlib.contextmanager
def lifted(model):
    """While open, float32 casts in diffusers' code for the layers of `model` go to float64; undone on leaving."""
    names = {type(layer).__module__ for layer in model.modules()}
    with contextlib.ExitStack() as stack:
        for name in sorted(n for n in names if n.startswith("diffusers.")):
            stack.enter_context(mock.patch.object(sys.modules[name], "torch", _WideTorch()))
        stack.enter_context(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        _wide_tables(model, stack)
        yield


class NarrowTensors(TorchDispatchMode):
    """While active, collects in `found` each operator that made a floating or complex tensor under float64."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and self._is_narrow(leaf.dtype):
                self.found.add(f"{func} -> {leaf.dtype}")
        return result

    @staticmethod
    def _is_narrow(dtype):
        return (dtype.is_floating_point or dtype.is_complex) and dtype not in _WIDE_ENOUGH


def run_lifted(model, call):
    """`call()` in float64 throughout; RuntimeError names the operators that made a narrower tensor."""
    with torch.no_grad(), lifted(model), NarrowTensors() as narrow:
        result = call()
    if narrow.found:
        raise RuntimeError("[lift] not in float64: " + "; ".join(sorted(narrow.found)))
    return result


def run_with_casts(call):
    """`call()` with the library's own float32 casts.

    RuntimeError if there were none: then either the watch in `run_lifted` is blind, or the lift was not undone.
    """
    with torch.no_grad(), NarrowTensors() as narrow:
        result = call()
    if not narrow.found:
        raise RuntimeError("[lift] expected float32 casts in the plain float64 run, saw none")
    return result
