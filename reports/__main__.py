"""`python -m reports FILE.jsonl... --out DIR [--title T]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .fields import InputError
from .output import write_report
from .records import STATUSES, read_files
from .render import report_files
from .summary import status_counts

DESCRIPTION = """\
Turn shardproof records (JSON lines) into a report for people:

  report.md     verdict, summary, mismatches and failures, worst modules, provenance
  report.html   the same as one self-contained page, plots inside
  rows.csv      every row, figures exact
  *.png         error against gate; bytes sent; memory; step time
"""

EPILOG = """\
example:
  shardproof verify --model flux1-tiny --strategies all --ranks 4 --dtype fp32,bf16 --out runs.jsonl
  python -m reports runs.jsonl --out report --title "FLUX.1 tiny, 4 ranks"

Several files make one report. A folder that exists keeps its other files; the report's own are
replaced. Nothing is written unless every line of every file is understood.

exit status: 0 the report was written, whatever the rows say; 2 bad usage or input, nothing written.
"""


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see --help)")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m reports",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="record files of shardproof")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the report")
    parser.add_argument("--title", default="shardproof report", metavar="T", help="heading (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    try:
        arguments = _arguments(argv)
        records = read_files(arguments.files)
        # resolve(): `.` has no name to put a temporary sibling beside.
        write_report(arguments.out.resolve(), report_files(records, arguments.title))
    except InputError as error:
        print(f"[reports] {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    counts = status_counts(records)
    print(f"{len(records)} rows: {', '.join(f'{counts[s]} {s}' for s in STATUSES)}")
    print(f"written: {arguments.out / 'report.md'}, {arguments.out / 'report.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
