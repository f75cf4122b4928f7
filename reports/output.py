"""Putting the finished files in place: all of them or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from .fields import InputError
from .render import OWN_FILES


def write_report(out: Path, files: dict[str, bytes]) -> None:
    """Write into a temporary sibling folder, then rename.

    A new `out` appears in one rename. In an existing one our own names are replaced one by one,
    `report.md` last, and those this report does not have (a plot without data) are removed;
    other files are left alone. Raises InputError where `out` cannot take the files.
    """
    _check(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror or error}") from None
    try:
        for name, data in files.items():
            (staging / name).write_bytes(data)
        _put_in_place(staging, out, files)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _check(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, expected a folder")
    for name in OWN_FILES:
        if (out / name).is_dir():
            raise InputError(f"{out / name}: is a folder where the report writes a file")


def _put_in_place(staging: Path, out: Path, files: dict[str, bytes]) -> None:
    if not out.exists():
        # mkdtemp is private to its owner; a report is for colleagues.
        umask = os.umask(0)
        os.umask(umask)
        staging.chmod(0o777 & ~umask)
        staging.rename(out)
        return
    for name in sorted(files, key=lambda name: name == "report.md"):
        os.replace(staging / name, out / name)
    for name in OWN_FILES:
        if name not in files:
            (out / name).unlink(missing_ok=True)
