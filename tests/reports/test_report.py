"""The whole command: files written, their text, refusals, and a second run."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rows import error_row, failed_row, level, mismatch_row, row, single_row, write

from reports.__main__ import main

SETTING = (
    "### flux1-oracle · batch 1, image tokens 48, text tokens 24 · mask none"
    " · attention kokkos_flash · communicator local"
)
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
ALL_PLOTS = {"error_vs_gate.png", "bytes_sent.png", "memory.png", "step_time.png"}
TEXT_FILES = {"report.md", "report.html", "rows.csv"}


@pytest.fixture
def report(tmp_path):
    """Runs the command over rows; gives the folder."""

    def run(*records, title="Parity"):
        path = write(tmp_path / "runs.jsonl", *records)
        out = tmp_path / "report"
        assert main([str(path), "--out", str(out), "--title", title]) == 0
        return out

    return run


def markdown(out: Path) -> str:
    return (out / "report.md").read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_all_files_and_plots_are_written(report):
    out = report(row(), single_row(), mismatch_row(), failed_row(strategy="ring"), error_row(strategy="unified"))
    assert {p.name for p in out.iterdir()} == TEXT_FILES | ALL_PLOTS
    for name in ALL_PLOTS:
        data = (out / name).read_bytes()
        assert data.startswith(PNG_SIGNATURE) and len(data) > 5000
    assert [p.name for p in out.parent.iterdir() if p.name.startswith(".")] == []


def test_summary_row_exactly(report):
    lines = markdown(report(row(), row(inputs="structured", steps=4))).splitlines()
    assert (
        "| `ulysses` | ulysses=2 | bf16 | randn, structured | 1, 4 | 2 | 3.00e-15 / 1e-12 | 1.0040 / 1.02 "
        "| `transformer_blocks.0` (precision) | 1.50 KiB | 8 | 3.00 MiB | 300 KiB | 12.0 ms | ✓ pass |"
    ) in lines
    assert SETTING in lines


def test_verdict_paragraph(report):
    text = markdown(report(row(), mismatch_row(), failed_row(), error_row()))
    assert text.startswith("# Parity\n\nAt least one distributed run does not equal the single-device run. 4 rows: ")
    verdict = text.splitlines()[2]
    assert "1 pass, 1 mismatch, 1 failed, 1 error." in verdict
    assert (
        "3.10e-02 (gate 1e-12, mismatch) in `transformer_blocks.0.attn.to_out.0` "
        "of `tp` (tp=2, fp64 row, randn, 1 step)."
    ) in verdict
    assert (
        "1.0040 (gate 1.02, pass) in `transformer_blocks.0` of `ulysses` (ulysses=2, bf16 row, randn, 1 step)."
        in verdict
    )


@pytest.mark.parametrize(
    ("records", "opening"),
    [
        ([row()], "Every run equals the single-device run."),
        ([row(), failed_row()], "Every run that was possible equals"),
        ([failed_row()], "Nothing is proved: no row passed."),
        ([row(), error_row()], "Some runs broke before they could be judged."),
    ],
)
def test_verdict_openings(report, records, opening):
    assert markdown(report(*records)).splitlines()[2].startswith(opening)


def test_incidents_carry_place_plan_hint_and_reason(report):
    text = section(markdown(report(mismatch_row(), failed_row(), error_row())), "Mismatches and failures")
    assert (
        "| `tp` | tp=2 | fp64 | randn | 1 | 1 | 3.10e-02 / 1e-12 | – | `transformer_blocks.0.attn.to_out.0` | 1 "
        "| `transformer_blocks.*.attn.to_out.0: rowwise` | `to_out.0` looks like it should be rowwise | – |"
    ) in text
    assert "| `ulysses` | ulysses=2 | bf16 | randn | 1 | 1 | [ulysses] 3969 tokens are not divisible by 2 |" in text
    assert "| – | – | – | [comm] rank 1 ended in all_to_all |" in text


def test_worst_modules_and_provenance(report):
    text = markdown(report(row()))
    assert (
        "| precision (bf16) | block | `transformer_blocks.0` → `out` | 1.0040 / 1.02 | 6.00e-03 | 0.006 | 1.00e-14 "
        "| 2.00e-13 | 1 | – | [0, 1, 2] | – | ulysses=2 | randn | 1 | ✓ pass |"
    ) in section(text, "Worst modules by strategy")
    provenance = section(text, "Provenance")
    assert "| shardproof=0.1.0, torch=2.11.0, kokkos=3.4.01, compiler=g++ 12.2 | `abc123` |" in provenance
    assert "    shardproof verify --strategies ulysses\n" in provenance


def test_every_markdown_table_is_rectangular(report):
    text = markdown(report(row(), mismatch_row(), failed_row(reason="a | b\n<c> `d`"), error_row()))
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) >= 8
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert r"a \| b \<c\> `d`" in text


def test_plots_without_data_are_not_drawn_and_the_text_says_so(report):
    out = report(failed_row())
    assert {p.name for p in out.iterdir()} == TEXT_FILES
    for text in (markdown(out), (out / "report.html").read_text(encoding="utf-8")):
        assert text.count("Not drawn: ") == 4
        assert "Not drawn: no row carries step times." in text


def test_single_only_records_draw_only_the_gates(report):
    out = report(single_row(), single_row(dtype="fp64", precision=None))
    assert {p.name for p in out.glob("*.png")} == {"error_vs_gate.png"}


def test_zeros_and_figures_that_are_not_finite_are_drawn(report):
    exact = row(levels=[level(error=0.0)], precision=None)
    lost = mismatch_row(levels=[level(error=None, status="mismatch")])
    lost["logic"]["worst"] = None
    out = report(exact, lost)
    assert (out / "error_vs_gate.png").is_file()
    assert "not finite / 1e-12" in markdown(out)


def test_a_gate_without_comparisons_is_drawn_from_its_worst_figure(report):
    assert (report(row(levels=[])) / "error_vs_gate.png").is_file()


def test_csv_is_exact(report):
    out = report(row(), failed_row())
    with (out / "rows.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert first["source"] == "runs.jsonl:1"
    assert first["mesh"] == "ulysses=2"
    assert first["bytes_sent_max_per_rank"] == "1537"
    assert first["bytes_sent_by_rank"] == "0:1536 1:1537"
    assert first["wire_cost_bytes"] == "1536 1537"
    assert first["peak_tensor_bytes_max_per_rank"] == "3145728"
    assert float(first["logic_error_relative_l2_fp64"]) == 3e-15
    assert (first["step_time_median_s"], first["step_time_what"]) == ("0.012", "critical path over ranks")
    assert (second["status"], second["logic_status"]) == ("failed", "")
    assert second["reason"] == "[ulysses] 3969 tokens are not divisible by 2"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]


def test_html_is_self_contained_and_escaped(report):
    out = report(row(), failed_row(strategy="ring", reason="<script>alert(1)</script>"), title="A <b> & c")
    text = (out / "report.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    assert len(page.links) == 4
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "script" not in page.tags and "link" not in page.tags
    assert "<title>A &lt;b&gt; &amp; c</title>" in text
    # A status is a word and a sign, not only a colour.
    assert '<span class="status pass"><span aria-hidden="true">✓</span> pass</span>' in text
    assert '<span class="status failed"><span aria-hidden="true">⊘</span> failed</span>' in text


def test_hundreds_of_rows_are_gathered(report):
    rows = [row(inputs=i, steps=s, seed=n) for i in ("randn", "structured") for s in (1, 4) for n in range(50)]
    table = section(markdown(report(*rows)), "Summary")
    assert table.count("| `ulysses` |") == 1
    assert "| randn, structured | 1, 4 | 200 |" in table


def test_a_second_run_writes_the_same_and_leaves_other_files(report):
    rows = [row(), mismatch_row(), failed_row()]
    out = report(*rows)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    (out / "notes.txt").write_text("mine")
    report(*rows)
    assert (out / "notes.txt").read_text() == "mine"
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.name != "notes.txt"} == before


def test_a_plot_of_an_earlier_run_does_not_stay(report):
    out = report(row())
    (out / "other.png").write_bytes(b"")
    report(failed_row())
    assert {p.name for p in out.glob("*.png")} == {"other.png"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{good}"], "the following arguments are required: --out (see --help)"),
        (["--out", "{out}"], "the following arguments are required: FILE.jsonl (see --help)"),
        (["{good}", "--out", "{out}", "--wat"], "unrecognized arguments: --wat (see --help)"),
        (["{good}", "{bad}", "--out", "{out}"], "{bad}:2: unknown field 'surprise'"),
        (["{good}", "{empty}", "--out", "{out}"], "{empty}: empty, expected at least one record"),
        (["{good}", "--out", "{good}"], "{good}: is a file, expected a folder"),
        (["{good}", "--out", "{good}/deeper"], "{good}/deeper: cannot be written: "),
    ],
)
def test_refusals_are_one_line_exit_2_and_write_nothing(tmp_path, capsys, arguments, message):
    names = {
        "good": write(tmp_path / "good.jsonl", row()),
        "bad": write(tmp_path / "bad.jsonl", row(), row(surprise=1)),
        "empty": write(tmp_path / "empty.jsonl"),
        "out": tmp_path / "out",
    }
    before = sorted(tmp_path.iterdir())
    assert main([a.format(**names) for a in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("[reports] " + message.format(**names))
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_in_the_way_of_our_file_is_refused_before_writing(tmp_path, capsys):
    out = tmp_path / "out"
    (out / "report.md").mkdir(parents=True)
    assert main([str(write(tmp_path / "r.jsonl", row())), "--out", str(out)]) == 2
    assert "is a folder where the report writes a file" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["report.md"]


def test_help_teaches_with_an_example():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "reports", "--help"], cwd=root, capture_output=True, text=True, check=True
    )
    assert "python -m reports runs.jsonl --out report" in done.stdout
    assert "exit status" in done.stdout
