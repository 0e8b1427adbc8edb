from __future__ import annotations

import pytest

from corral.podtools.kafka.ranges import Range, parse_ranges, ranges_text


def test_ranges() -> None:
    assert parse_ranges("a:0:1:5, b:2:0:0") == [Range("a", 0, 1, 5), Range("b", 2, 0, 0)]
    assert str(Range("a", 0, 1, 5)) == "a:0:1:5"
    for wrong in ("", "a:0:1", "a:x:1:2", "a b:0:1:2", "a:0:1:2:3",
                  f"a:0:0:{1 << 62}", f"a:{1 << 31}:0:1"):  # fmt: skip
        with pytest.raises(ValueError):
            parse_ranges(wrong)
    assert ranges_text(parse_ranges("a:0:1:5, b:2:0:0")) == "a:0:1:5,b:2:0:0"
    assert len(Range("a", 0, 1, 5)) == 4
