"""The lint of folders and words: what grows is named, what shrinks is not."""

from __future__ import annotations

import ast

import pytest

from tools import house

CODE = """
class A:
    x: int = 1

def f(said, *, told=None):
    self.seen = said
    g(said=told)
"""
RECORD = {
    "folders": {"corral/large": 22},
    "words": {"said": {"say": "reported", "left": {"corral/old": 2}}},
}


@pytest.mark.parametrize(
    ("word", "name", "expected"),
    [
        ("said", "_said", True),
        ("said", "what_was_said", True),
        ("said", "unsaid", False),
        ("Go", "Go", True),
        ("Go", "GoLeft", False),
        ("words_of", "words_of", True),
        ("words_of", "words", False),
    ],
)
def test_whole_names_and_parts_of_them(word: str, name: str, expected: bool) -> None:
    assert house.matches(word, name) is expected


def test_what_gives_a_name_counts_and_what_uses_it_does_not() -> None:
    assert sorted(house.defined(ast.parse(CODE))) == ["A", "f", "said", "seen", "told", "x"]


@pytest.mark.parametrize(
    ("folders", "words", "expected"),
    [
        ({"corral/large": 22}, {"said": {"corral/old": 2}}, []),
        ({"corral/large": 21}, {"said": {}}, []),
        ({"corral/large": 23}, {"said": {}}, ["corral/large: modules 23, at most 22"]),
        ({"corral/new": 21}, {"said": {}}, ["corral/new: modules 21, at most 0"]),
        ({}, {"said": {"corral/old": 3}}, ["corral/old: names with 'said': 3, at most 2"]),
        ({}, {"said": {"corral/new": 1}}, ["corral/new: names with 'said': 1, at most 0"]),
    ],
)
def test_only_what_has_grown_is_a_problem(
    folders: dict[str, int], words: dict[str, dict[str, int]], expected: list[str]
) -> None:
    found = house.problems(RECORD, folders, words)
    assert [line.rpartition(": ")[0] for line in found] == expected


def test_the_glossary_is_short_and_says_everything_once() -> None:
    lines = (house.ROOT / "docs/glossary.md").read_text().splitlines()
    words = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    words = [word for word in words if word != "Word" and not word.startswith("---")]
    assert 0 < len(words) <= 60
    assert len(set(words)) == len(words)
