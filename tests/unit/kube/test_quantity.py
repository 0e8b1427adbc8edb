import pytest

from corral.kube.quantity import Quantity, canonical


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("00", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        (".5", "500m"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("10e3", "10e3"),
        ("1000e3", "1e6"),
        ("1.5e3", "1500"),
        ("12e6", "12e6"),
        ("1k", "1k"),
        ("1000k", "1M"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("64Mi", "64Mi"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.1Ki", "1126400m"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("1e-20", "1e-9"),
        ("-0.1n", "-1n"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("5.", "5."),
        ("9223372036854775807", "9223372036854775807"),
        ("16Ei", "9223372036854775807"),
        ("1Ei", "1Ei"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ],
)
def test_canonical(text: str, printed: str) -> None:
    assert canonical(text) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "quantities must match the regular expression"),
        ("abc", "quantities must match the regular expression"),
        ("1 Gi", "quantities must match the regular expression"),
        ("1.2.3", "quantities must match the regular expression"),
        ("1Gi ", "quantities must match the regular expression"),
        ("1K", "unable to parse quantity's suffix"),
        ("1kk", "unable to parse quantity's suffix"),
        ("1ei", "unable to parse quantity's suffix"),
        ("1e99999999999", "unable to parse quantity's suffix"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Quantity.parse(text)


def test_compares_amounts_not_texts() -> None:
    assert Quantity.parse("1Ki") == Quantity.parse("1024")
    assert Quantity.parse("999m") < Quantity.parse("1")
    assert Quantity.parse("1Gi") > Quantity.parse("1G")
    assert max(map(Quantity.parse, ["1", "900m", "2"])).to_int() == 2
    assert len({Quantity.parse("1"), Quantity.parse("1000m")}) == 1


def test_adds_in_the_family_of_the_first() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("512Mi")) == "1536Mi"
    assert str(Quantity.parse("1") + Quantity.parse("500m")) == "1500m"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("1") - Quantity.parse("1500m")) == "-500m"


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [("1500m", 2, 1500), ("1Gi", 2**30, 2**30 * 1000), ("-1500m", -2, -1500), ("1u", 1, 1)],
)
def test_whole_numbers(text: str, whole: int, milli: int) -> None:
    assert Quantity.parse(text).to_int() == whole
    assert Quantity.parse(text).milli() == milli
