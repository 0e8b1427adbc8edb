"""Bodies of web forms, taken apart."""

from __future__ import annotations

import mmap
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.gateway.problems import Refused
from corral.gateway.rest.forms import FormError, boundary_of, fields_of, parts_of
from corral.gateway.rest.kafkaml import bodies, rows


def form(parts: dict[str, bytes], boundary: bytes = b"xyz") -> bytes:
    out = b""
    for name, content in parts.items():
        head = f'Content-Disposition: form-data; name="{name}"; filename="{name}.bin"'
        out += b"--" + boundary + b"\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"
    return out + b"--" + boundary + b"--\r\n"


def test_parts_are_as_they_were_sent() -> None:
    chance = random.Random(3)
    for _ in range(200):
        words = [b"\r\n", b"--", b"xyz", b"\r\n--xy", b"a", b"\x00", b"\xff", b"\r", b"\n"]
        made = {
            f"part{n}": b"".join(chance.choices(words, k=chance.randrange(12))) for n in range(3)
        }
        if any(b"\r\n--xyz" in b"\r\n" + content for content in made.values()):
            continue
        body = form(made)
        found = parts_of(body, b"xyz")
        assert {n: body[part.start : part.end] for n, part in found.items()} == made
        assert found["part0"].filename == "part0.bin"


def test_a_large_file_stays_where_it_is(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    path = tmp_path / "body"
    path.write_bytes(form({"data": b"{}", "trained_model": content}))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        part = parts_of(held, b"xyz")["trained_model"]
        assert len(part) == len(content)
        assert held[part.start : part.end] == content


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"--xyz",
        b"--xyz\r\n",
        b"--xyzw\r\n\r\n",
        b"--xyz\r\nA: b\r\n\r\ncontent\r\n--xyz--",
        b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\ncontent',
        form({"a": b"1"})[:-9] + b'--xyz\r\nContent-Disposition: x; name="a"\r\n\r\n\r\n--xyz--',
    ],
)
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(FormError):
        parts_of(body, b"xyz")


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(
    name=st.one_of(st.binary(max_size=60), st.text(max_size=30).map(str.encode)),
    kind=st.text(max_size=60),
)
def test_whatever_is_sent_is_a_form_or_is_refused(name: bytes, kind: str) -> None:
    disposition = b'Content-Disposition: form-data; name="' + name + b'"'
    with suppress(FormError):
        parts_of(b"--x\r\n" + disposition + b"\r\n\r\nvalue\r\n--x--\r\n", b"x")
    with suppress(FormError):
        parts_of(b"--x\r\n" + name + b"\r\n\r\nvalue\r\n--x--\r\n", b"x")
    with suppress(FormError):
        boundary_of(f"multipart/form-data; boundary={kind}")
    with suppress(FormError):
        boundary_of(kind)


def test_a_name_may_have_characters_that_no_header_has() -> None:
    disposition = 'Content-Disposition: form-data; name="a\x0cb\x85"'.encode()
    found = parts_of(b"--x\r\n" + disposition + b"\r\n\r\nvalue\r\n--x--\r\n", b"x")
    assert list(found) == ["a\x0cb\x85"]


def test_boundaries() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
    assert boundary_of("multipart/form-data; charset=utf-8; boundary=xyz") == b"xyz"
    for odd in ("multipart/form-data", "multipart/form-data; boundary=", "x; boundary=" + "a" * 71):
        with pytest.raises(FormError):
            boundary_of(odd)


def test_fields() -> None:
    assert fields_of(b"data=%7B%22a%22%3A+1%7D&b=") == {"data": '{"a": 1}', "b": ""}
    with pytest.raises(FormError):
        fields_of(b"\xff=1")


def test_metrics() -> None:
    found = bodies.metrics_status(
        {
            "train_metrics": {"loss": [2, 1.5]}, "val_metrics": '{"loss": 1}', "test_metrics": {},
            "training_time": "12.5", "confusion_matrix": [[3, 1], [0, 4]], "indefinite": False,
        }
    )  # fmt: skip
    assert found == {
        "trainMetrics": {"loss": [2, 1.5]},
        "valMetrics": {"loss": 1},
        "testMetrics": {"confusion_matrix": [[3, 1], [0, 4]]},
        "trainingSeconds": 12.5,
    }
    assert bodies.metrics_status({}) == {}
    chart = rows.chart({"id": 1, **found})
    assert chart["conf_mat"] is True
    assert [(line["name"], [p["value"] for p in line["series"]]) for line in chart["metrics"]] == [
        ("loss", [2.0, 1.5]),
        ("val_loss", [1.0]),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"train_metrics": [1]},
        {"train_metrics": {"loss": "1"}},
        {"train_metrics": {"loss": []}},
        {"train_metrics": {"loss": [1, None]}},
        {"train_metrics": {"loss": True}},
        {"train_metrics": {"loss": float("nan")}},
        {"train_metrics": {"": 1}},
        {"val_metrics": {f"m{n}": 1 for n in range(101)}},
        {"confusion_matrix": [[1, 2]]},
        {"confusion_matrix": [[1.5]]},
        {"confusion_matrix": "x"},
        {"training_time": -1},
    ],
)
def test_what_is_no_metric_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(Refused):
        bodies.metrics_status(body)
