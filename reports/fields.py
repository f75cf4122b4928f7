"""Typed access to parsed JSON, with refusals that name the place, the key and what is accepted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


class InputError(Exception):
    """Something in the input that is refused; the message is one line and says where."""


class Fields:
    """Typed access to one JSON object; every refusal names the key and what is accepted.

    Keys are noted as they are read, so `done()` can name the ones nobody asked for.
    """

    def __init__(self, value: Any, where: str, path: str = "") -> None:
        self._where, self._path = where, path
        if not isinstance(value, dict):
            raise InputError(f"{where}: {path or 'line'}: expected an object, got {_shown(value)}")
        self._object: dict[str, Any] = value
        self._read: set[str] = set()

    def refuse(self, key: str, message: str) -> NoReturn:
        raise InputError(f"{self._where}: {self._name(key)}: {message}")

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def take(self, key: str) -> Any:
        self._read.add(key)
        if key not in self._object:
            raise InputError(f"{self._where}: missing required field '{self._name(key)}'")
        return self._object[key]

    def nullable(self, key: str, read: Callable[[str], Any]) -> Any:
        self._read.add(key)
        return None if self._object.get(key) is None else read(key)

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str):
            self.refuse(key, f"expected a string, got {_shown(value)}")
        return value

    def choice(self, key: str, accepted: tuple[str, ...]) -> str:
        value = self.take(key)
        if not isinstance(value, str) or value not in accepted:
            self.refuse(key, f"unknown {key} {_shown(value)}, accepted: {', '.join(accepted)}")
        return value

    def integer(self, key: str, least: int = 0) -> int:
        return self._as_integer(key, self.take(key), least)

    def _as_integer(self, key: str, value: Any, least: int) -> int:
        # bool is an int in Python; JSON's true is not a count.
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.refuse(key, f"expected an integer >= {least}, got {_shown(value)}")
        return value

    def number(self, key: str) -> float:
        value = self.take(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not _finite(value):
            self.refuse(key, f"expected a finite number, got {_shown(value)}")
        return float(value)

    def measured(self, key: str) -> float | None:
        """A required key whose null means that the figure is not finite."""
        return None if self.take(key) is None else self.number(key)

    def array(self, key: str) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list):
            self.refuse(key, f"expected an array, got {_shown(value)}")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        return tuple(self._as_integer(f"{key}[{i}]", v, 0) for i, v in enumerate(self.array(key)))

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.array(key)
        for i, value in enumerate(values):
            if not isinstance(value, str):
                self.refuse(f"{key}[{i}]", f"expected a string, got {_shown(value)}")
        return tuple(values)

    def inner(self, key: str) -> Fields:
        return Fields(self.take(key), self._where, self._name(key))

    def inners(self, key: str) -> list[Fields]:
        name = self._name(key)
        return [Fields(v, self._where, f"{name}[{i}]") for i, v in enumerate(self.array(key))]

    def counts(self, key: str, required: tuple[str, ...] = (), least: int = 0) -> tuple[tuple[str, int], ...]:
        """An open map name -> integer (mesh, shape), in the writer's order."""
        inner = self.inner(key)
        for name in required:
            inner.integer(name, least)
        return tuple((name, inner.integer(name, least)) for name in inner._object)

    def facts(self, key: str) -> tuple[tuple[str, str], ...]:
        """An open map of names to scalars (versions, machine), shown as it is."""
        inner = self.inner(key)
        for name, value in inner._object.items():
            if isinstance(value, dict | list):
                inner.refuse(name, f"expected a string or a number, got {_shown(value)}")
        return tuple((k, v if isinstance(v, str) else json.dumps(v)) for k, v in inner._object.items())

    def done(self) -> None:
        for key in self._object:
            if key not in self._read:
                raise InputError(f"{self._where}: unknown field '{self._name(key)}'")


def _shown(value: Any) -> str:
    """A value for an error line, cut short and on one line."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of double
        return False
