#!/usr/bin/env python3
"""Checks that includes point down the layers of docs/architecture.md, that headers include what they use, and prints
files that have grown too long.

Exit status 1 and one line per fault, 0 otherwise. Usage: python3 ci/layering.py [--root DIR]
"""
import argparse
import pathlib
import re
import sys

# Folder -> folders it may include besides itself. Nothing may include tests; nobody but the harness the reference.
MAY_INCLUDE = {
    "core": set(),
    "reference": {"core"},
    "kernels": {"core"},
    "comm": {"core"},
    "models": {"core", "kernels", "comm"},
    "strategies": {"core", "kernels", "comm", "models"},
    "harness": {"core", "kernels", "comm", "models", "strategies", "reference"},
    "tests": {"core", "kernels", "comm", "models", "strategies", "reference", "harness"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# What the precompiled header brings to every source: a header that uses it must include it itself all the same.
BROUGHT = {
    "<functional>": r"std::function\b",
    "<map>": r"std::map\b",
    "<memory>": r"std::(unique_ptr|shared_ptr)\b",
    "<optional>": r"std::optional\b",
    "<string>": r"std::string\b",
    "<vector>": r"std::vector\b",
}
LONGEST = {".hpp": 300, ".cpp": 500, ".py": 500}


def wrong_includes(root: pathlib.Path) -> list[str]:
    """One line for each include that does not point down, or that does not name its folder."""
    wrong = []
    for folder, allowed in MAY_INCLUDE.items():
        for file in sorted((root / folder).rglob("*.[hc]pp")):
            for target in INCLUDE.findall(file.read_text()):
                other = target.split("/")[0]
                if other not in MAY_INCLUDE:
                    wrong.append(f"{file.relative_to(root)}: \"{target}\" does not start with a folder of the project")
                elif other != folder and other not in allowed:
                    wrong.append(f"{file.relative_to(root)}: {folder} may not include {other} (\"{target}\")")
    return wrong


def forgotten_includes(root: pathlib.Path) -> list[str]:
    """One line for each header that uses a standard type without including its header, directly or through the project's."""
    includes = {}
    for folder in MAY_INCLUDE:
        for file in (root / folder).rglob("*.hpp"):
            includes[str(file.relative_to(root))] = file.read_text()

    def reaches(header: str, wanted: str, seen: set[str]) -> bool:
        text = includes.get(header, "")
        if f"#include {wanted}" in text:
            return True
        inner = [name for name in INCLUDE.findall(text) if name not in seen]
        return any(reaches(name, wanted, seen | {name}) for name in inner)

    return [
        f"{header}: uses {pattern.split('(')[0].removesuffix(chr(92) + 'b')} without including {wanted}"
        for header, text in sorted(includes.items())
        for wanted, pattern in BROUGHT.items()
        if re.search(pattern, text) and not reaches(header, wanted, {header})
    ]


def long_files(root: pathlib.Path) -> list[str]:
    """Files over the sizes at which two concepts probably share one."""
    folders = [*MAY_INCLUDE, "reports"]
    files = [f for folder in folders for f in sorted((root / folder).rglob("*")) if f.suffix in LONGEST]
    sizes = ((f, len(f.read_text().splitlines())) for f in files)
    return [f"{f.relative_to(root)}: {lines} lines" for f, lines in sizes if lines > LONGEST[f.suffix]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    for line in long_files(root):
        print(f"[layering] long: {line}")
    wrong = wrong_includes(root) + forgotten_includes(root)
    for line in wrong:
        print(f"[layering] {line}", file=sys.stderr)
    print(f"[layering] {'ok' if not wrong else f'{len(wrong)} faults'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
