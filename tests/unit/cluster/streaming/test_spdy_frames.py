"""Frames against the SPDY/3.1 specification."""

from __future__ import annotations

import zlib

import pytest

from corral.cluster.streaming import frames
from corral.cluster.streaming.dictionary import DICTIONARY
from corral.cluster.streaming.frames import (
    Data,
    Decoder,
    Encoder,
    FrameError,
    GoAway,
    HeadersFrame,
    Ping,
    RstStream,
    Settings,
    SynReply,
    SynStream,
    WindowUpdate,
)

EVERY = [
    SynStream(1, {"streamtype": "stdin"}, priority=3),
    SynStream(3, {"a": "1\x002", "empty": ""}, fin=True, unidirectional=True, associated=1),
    SynReply(1, {}),
    HeadersFrame(1, {"x": "y"}, fin=True),
    RstStream(1, frames.CANCEL),
    Settings({frames.INITIAL_WINDOW_SIZE: 65536}),
    Ping(1),
    GoAway(3, 0),
    WindowUpdate(1, 1000),
    Data(1, b"hello", fin=False),
    Data(1, b"", fin=True),
]


def test_dictionary_is_the_one_of_the_specification() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2
    assert DICTIONARY.startswith(b"\x00\x00\x00\x07options\x00\x00\x00\x04head")
    assert DICTIONARY.endswith(b",enq=0.")


@pytest.mark.parametrize("size", [1, 3, 7, 100_000])
def test_frames_survive_however_they_are_cut(size: int) -> None:
    encoder, decoder = Encoder(), Decoder()
    raw = b"".join(encoder.encode(frame) for frame in EVERY)
    found = [f for at in range(0, len(raw), size) for f in decoder.feed(raw[at : at + size])]
    data = b"".join(f.data for f in found if isinstance(f, Data))
    assert data == b"hello"
    assert [f for f in found if not isinstance(f, Data)] == [
        f for f in EVERY if not isinstance(f, Data)
    ]
    assert isinstance(found[-1], Data) and found[-1].fin


WIRE = {
    "data": (Data(5, b"abc", fin=True), "00000005 01000003 616263"),
    "rst": (RstStream(5, frames.CANCEL), "80030003 00000008 00000005 00000005"),
    "settings": (Settings({7: 0x10000}), "80030004 0000000c 00000001 00000007 00010000"),
    "ping": (Ping(2), "80030006 00000004 00000002"),
    "goaway": (GoAway(1, 2), "80030007 00000008 00000001 00000002"),
    "window": (WindowUpdate(1, 64), "80030009 00000008 00000001 00000040"),
}


@pytest.mark.parametrize("name", WIRE)
def test_bytes_on_the_wire(name: str) -> None:
    frame, expected = WIRE[name]
    assert Encoder().encode(frame) == bytes.fromhex(expected)


def test_headers_are_compressed_with_the_dictionary_and_one_context() -> None:
    encoder = Encoder()
    first = encoder.encode(SynStream(1, {"streamType": "stdin"}))
    second = encoder.encode(SynStream(3, {"streamType": "stdin"}))
    assert first[:18] == bytes.fromhex("80030001 000000") + first[7:8] + bytes.fromhex(
        "00000001 00000000 0000"
    )
    unzip = zlib.decompressobj(zdict=DICTIONARY)
    block = b"\0\0\0\1\0\0\0\x0astreamtype\0\0\0\5stdin"
    assert unzip.decompress(first[18:]) == block
    assert unzip.decompress(second[18:]) == block
    assert len(second) < len(first)


KUBECTL = (
    "8003000100000029000000010000000000" "0078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800"
    "000000ffff800300010000001700000003000000000000c22e555c92929907000000ffff"
    "800300010000001900000005000000000000c22ac5565c92925f5a02000000ffff"
    "800300010000001500000007000000000000c229975a5404000000ffff"
    "000000030000000268690000000301000000"
    "8003000300000008000000050000000580030007000000080000000000000000"
)  # fmt: skip
"""What kubectl 1.32 (Go's spdystream) sends for ``echo -n hi | kubectl exec -i POD -- cat``."""


def test_bytes_of_kubectl() -> None:
    assert Decoder().feed(bytes.fromhex(KUBECTL)) == [
        SynStream(1, {"streamtype": "error"}),
        SynStream(3, {"streamtype": "stdin"}),
        SynStream(5, {"streamtype": "stdout"}),
        SynStream(7, {"streamtype": "stderr"}),
        Data(3, b"hi"),
        Data(3, b"", fin=True),
        RstStream(5, frames.CANCEL),
        GoAway(0),
    ]


BAD = {
    "version 2": "80020006 00000004 00000001",
    "stream zero": "00000000 00000001 61",
    "reset of stream zero": "80030003 00000008 00000000 00000001",
    "short ping": "80030006 00000002 0001",
    "settings that lie": "80030004 00000004 00000009",
    "huge control frame": "80030001 00ffffff",
    "headers that are no zlib": "80030002 00000008 00000001 deadbeef",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_spdy_is_refused(name: str) -> None:
    with pytest.raises(FrameError):
        Decoder().feed(bytes.fromhex(BAD[name]))


def test_a_header_bomb_is_refused() -> None:
    encoder = Encoder()
    raw = encoder.encode(SynReply(1, {"x": "0" * (frames.MAX_HEADER_BLOCK + 10)}))
    with pytest.raises(FrameError, match="too large"):
        Decoder().feed(raw)


def test_unknown_control_frames_are_skipped() -> None:
    raw = bytes.fromhex("8003000b 00000004 01020304 80030006 00000004 00000001")
    assert Decoder().feed(raw) == [Ping(1)]


def test_duplicate_headers_are_refused() -> None:
    zip_ = zlib.compressobj(9, zdict=DICTIONARY)
    block = b"\0\0\0\2" + b"\0\0\0\1a\0\0\0\1b" * 2
    packed = zip_.compress(block) + zip_.flush(zlib.Z_SYNC_FLUSH)
    body = b"\0\0\0\1" + packed
    raw = bytes.fromhex("80030002") + len(body).to_bytes(4, "big") + body
    with pytest.raises(FrameError, match="same name"):
        Decoder().feed(raw)
