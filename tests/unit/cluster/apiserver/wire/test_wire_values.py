import pytest

from corral.cluster.apiserver.codec.values import (
    duration_text,
    from_unix,
    micro_time_text,
    time_text,
)

LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.999Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00,5Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00Z"),
        ("2020-01-01T1:00:00Z", "2020-01-01T01:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_time(text: str, printed: str | None) -> None:
    assert time_text(text) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2020-01-01", f'parsing time "2020-01-01" as "{LAYOUT}": cannot parse "" as "T"'),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        ("2020-01-01T00:00:00", f'parsing time "2020-01-01T00:00:00" as "{LAYOUT}": '
                                'cannot parse "" as "Z07:00"'),
        ("2020-01-01T00:00:00Zx", 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
        ("2020-01-01T00:00:00+25:00",
         'parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range'),
    ],
)  # fmt: skip
def test_bad_time(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        time_text(text)
    assert str(caught.value) == message


def test_micro_time_needs_six_decimals() -> None:
    assert micro_time_text("2020-01-01T00:00:00.123456Z") == "2020-01-01T00:00:00.123456Z"
    with pytest.raises(ValueError, match=r'cannot parse "Z" as ".000000"'):
        micro_time_text("2020-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0s"), ("30s", "30s"), ("90s", "1m30s"), ("1h", "1h0m0s"), ("1.5h", "1h30m0s"),
        ("1500ms", "1.5s"), ("10us", "10µs"), ("-1m", "-1m0s"), ("7ns", "7ns"),
    ],
)  # fmt: skip
def test_duration(text: str, printed: str) -> None:
    assert duration_text(text) == printed


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "-", "1s2"])
def test_bad_duration(text: str) -> None:
    with pytest.raises(ValueError, match="time: invalid duration"):
        duration_text(text)


@pytest.mark.parametrize(
    ("seconds", "micro", "printed"),
    [
        (-62135596798, True, "0001-01-01T00:00:02.000000Z"),
        (-62135596798, False, "0001-01-01T00:00:02Z"),
        (-62135596800, False, None),
        (0, False, "1970-01-01T00:00:00Z"),
    ],
)
def test_years_have_four_digits(seconds: int, micro: bool, printed: str | None) -> None:
    assert from_unix(seconds, 0, micro=micro) == printed
