"""Figures as people read them: binary units, seconds, errors beside their gates."""

from __future__ import annotations

from .records import Record, facts_text

NONE = "–"
NOT_FINITE = "not finite"
LEVEL_NAMES = {"module": "module", "block": "block", "end_to_end": "end to end", "diffusers": "diffusers"}

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def bytes_unit(largest: float) -> tuple[int, str]:
    """The binary unit (factor, name) in which `largest` reads as 1 to 1023."""
    power = 0
    while round(largest / 1024**power, 2) >= 1024 and power < len(_BYTE_UNITS) - 1:
        power += 1
    return 1024**power, _BYTE_UNITS[power]


def bytes_text(count: int | None) -> str:
    """`1536` -> `1.50 KiB`; under 1 KiB exact."""
    if count is None:
        return NONE
    factor, unit = bytes_unit(count)
    return f"{count} B" if factor == 1 else f"{_three_digits(count / factor)} {unit}"


def time_unit(largest: float) -> tuple[float, str]:
    """The unit (factor, name) in which `largest` seconds reads as at least 1, µs at the smallest."""
    return next((unit for unit in _TIME_UNITS if largest >= unit[0]), _TIME_UNITS[-1])


def seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    factor, unit = time_unit(seconds)
    return f"{_three_digits(seconds / factor)} {unit}"


def _three_digits(value: float) -> str:
    for limit, decimals in ((10, 2), (100, 1)):
        if round(value, decimals) < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"


def number_text(value: float | None, none: str = NONE) -> str:
    """A plain figure in few digits; exponents only where they help."""
    if value is None:
        return none
    return f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.2e}"


def error_text(value: float | None) -> str:
    """A relative L2 error; `none` is a NaN or an infinity."""
    if value is None:
        return NOT_FINITE
    return "0" if value == 0 else f"{value:.2e}"


def against_gate(gate: str, figure: float | None, limit: float) -> str:
    """`3.00e-15 / 1e-12` or `1.0040 / 1.02`.

    Digits are added until the two differ where the numbers differ: a figure just over its gate
    must not read as equal to it.
    """
    if figure is None:
        return f"{NOT_FINITE} / {limit:g}"
    for extra in range(12):
        if gate == "logic":
            left, right = ("0" if figure == 0 else f"{figure:.{2 + extra}e}"), f"{limit:.{3 + extra}g}"
        else:
            left, right = f"{figure:.{4 + extra}f}", f"{limit:.{5 + extra}g}"
        if figure == limit or float(left) != float(right):
            break
    return f"{left} / {right}"


def mesh_text(record: Record) -> str:
    """`tp=2, ulysses=4`; without axes the rank count, so that the column is never empty."""
    return facts_text(record.mesh) or f"{record.ranks} rank{'s' if record.ranks != 1 else ''}"


def shape_text(shape: tuple[tuple[str, int], ...]) -> str:
    return facts_text(shape).replace("_", " ").replace("=", " ")


def module_text(module: str) -> str:
    """The root module's checkpoint name is empty; a table cell must not be."""
    return module or "(whole model)"


def joined(values: list[str]) -> str:
    """Distinct values in order of appearance."""
    return ", ".join(dict.fromkeys(values))
