"""What people see of text that others wrote."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from corral.kube.printable import printable, printable_lines

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_every_character_without_a_shape_is_escaped() -> None:
    hidden = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in HIDDEN]
    assert len(hidden) > 2000
    left = [f"{ord(c):x}" for c in hidden if c in printable(f"a{c}b")]
    assert left == []
    kept = [f"{ord(c):x}" for c in hidden if c in printable_lines(f"a{c}b") and c not in "\n\t"]
    assert kept == []


@pytest.mark.parametrize(
    "text",
    ["digits", "Größe 10 µm", "日本語", "🙂", "a\\n", "[red]no markup[/red]", "a\u00a0b", ""],
)
def test_what_has_a_shape_stays(text: str) -> None:
    assert printable(text) == printable_lines(text) == text


@pytest.mark.parametrize(
    ("text", "one", "several"),
    [
        ("\x1b[2J", r"\x1b[2J", r"\x1b[2J"),
        ("\x9b2J", r"\x9b2J", r"\x9b2J"),
        ("a\nb\tc", r"a\nb\tc", "a\nb\tc"),
        ("a\r\nb", r"a\r\nb", "a\nb"),
        ("a\rb", r"a\rb", r"a\rb"),
        ("\u202egnp", r"\u202egnp", r"\u202egnp"),
        ("a\u2028b", r"a\u2028b", r"a\u2028b"),
        ("\U000e0041", r"\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800", r"\ud800"),
    ],
)
def test_escapes(text: str, one: str, several: str) -> None:
    assert printable(text) == one
    assert printable_lines(text) == several


def test_other_things_are_texts_first() -> None:
    assert printable(ValueError("a\x07")) == r"a\x07"
    assert printable(7) == "7"
