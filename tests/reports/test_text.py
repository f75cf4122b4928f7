"""Figures as text: expected values worked out by hand."""

from __future__ import annotations

import pytest

from reports.text import against_gate, bytes_text, error_text, number_text, seconds_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (1024**2 - 1, "1.00 MiB"),
        (150 * 1024**2, "150 MiB"),
        (64_400_000_000, "60.0 GiB"),  # 64.4e9 / 2**30 = 59.977
    ],
)
def test_bytes_in_binary_units(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0.00 µs"), (5e-5, "50.0 µs"), (0.012, "12.0 ms"), (1.5, "1.50 s"), (250.0, "250 s")],
)
def test_seconds(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("gate", "figure", "limit", "text"),
    [
        ("logic", 3e-15, 1e-12, "3.00e-15 / 1e-12"),
        ("logic", 0.0, 1e-12, "0 / 1e-12"),
        ("logic", None, 1e-12, "not finite / 1e-12"),
        ("precision", 1.004, 1.02, "1.0040 / 1.02"),
        ("precision", 1.0, 1.0, "1.0000 / 1"),
        # Just over the gate must not read as equal to it.
        ("precision", 1.02001, 1.02, "1.02001 / 1.02"),
        ("logic", 1.0001e-12, 1e-12, "1.0001e-12 / 1e-12"),
    ],
)
def test_figure_beside_its_gate(gate, figure, limit, text):
    assert against_gate(gate, figure, limit) == text


def test_other_figures():
    assert error_text(None) == "not finite"
    assert error_text(0.0) == "0"
    assert number_text(45.123) == "45.12"
    assert number_text(2e-7) == "2.00e-07"
