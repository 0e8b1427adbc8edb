"""SPDY/3.1 frames to bytes and back, without I/O.

One ``Encoder`` and one ``Decoder`` a connection: header blocks share a compression context, so
frames must be sent in the order in which they were encoded. The payload of a large DATA frame is
handed out in pieces as it arrives; nothing is held back but control frames, which are limited.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from corral.cluster.streaming.dictionary import DICTIONARY

VERSION = 3
MAX_CONTROL = 1 << 20
MAX_HEADER_BLOCK = 1 << 20
"""Bytes of a header block, unpacked."""
MAX_DATA = 0xFFFFFF

FIN = 0x01
UNIDIRECTIONAL = 0x02

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS = 1, 2, 3, 4
PING, GOAWAY, HEADERS, WINDOW_UPDATE = 6, 7, 8, 9

PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5
INITIAL_WINDOW_SIZE = 7
"""The setting a peer that keeps windows announces."""


class FrameError(Exception):
    """The peer sent something that is not SPDY/3.1; the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class SynStream:
    """A new stream. Header names are lower case; several values are joined by NUL."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False
    unidirectional: bool = False
    associated: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class SynReply:
    """The new stream is accepted."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class HeadersFrame:
    """Further headers of a stream."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class RstStream:
    """The stream ends at once, both ways."""

    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Setting id → value."""

    values: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Ping:
    """Odd ids are the client's, even ones the server's; the other side sends them back."""

    id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """No further streams."""

    last: int
    status: int = 0


@dataclass(frozen=True, slots=True)
class WindowUpdate:
    """The receiver has room for ``delta`` more bytes."""

    stream: int
    delta: int


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; ``fin`` with the last."""

    stream: int
    data: bytes
    fin: bool = False


Frame: TypeAlias = (
    SynStream | SynReply | HeadersFrame | RstStream | Settings | Ping | GoAway | WindowUpdate | Data
)

_WORD = struct.Struct(">I")
_PAIR = struct.Struct(">II")
_SYN = struct.Struct(">IIBB")


class Encoder:
    """Frames to bytes."""

    def __init__(self) -> None:
        self._zip = zlib.compressobj(9, zdict=DICTIONARY)

    def encode(self, frame: Frame) -> bytes:
        match frame:
            case Data(stream, data, fin):
                if len(data) > MAX_DATA:
                    raise FrameError(f"{len(data)} bytes do not fit into one DATA frame")
                return _PAIR.pack(stream, (FIN if fin else 0) << 24 | len(data)) + data
            case SynStream():
                flags = (FIN if frame.fin else 0) | (UNIDIRECTIONAL if frame.unidirectional else 0)
                head = _SYN.pack(frame.stream, frame.associated, frame.priority << 5, 0)
                return _control(SYN_STREAM, head + self._block(frame.headers), flags)
            case SynReply(stream, headers, fin):
                body = _WORD.pack(stream) + self._block(headers)
                return _control(SYN_REPLY, body, FIN if fin else 0)
            case HeadersFrame(stream, headers, fin):
                body = _WORD.pack(stream) + self._block(headers)
                return _control(HEADERS, body, FIN if fin else 0)
            case RstStream(stream, status):
                return _control(RST_STREAM, _PAIR.pack(stream, status))
            case Settings(values):
                pairs = b"".join(_PAIR.pack(key, value) for key, value in values.items())
                return _control(SETTINGS, _WORD.pack(len(values)) + pairs)
            case Ping(number):
                return _control(PING, _WORD.pack(number))
            case GoAway(last, status):
                return _control(GOAWAY, _PAIR.pack(last, status))
            case WindowUpdate(stream, delta):
                return _control(WINDOW_UPDATE, _PAIR.pack(stream, delta))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        parts = [_WORD.pack(len(headers))]
        for name, value in headers.items():
            raw_name, raw_value = name.lower().encode(), value.encode()
            parts += [_WORD.pack(len(raw_name)), raw_name, _WORD.pack(len(raw_value)), raw_value]
        packed = self._zip.compress(b"".join(parts))
        return packed + self._zip.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _PAIR.pack(0x80000000 | VERSION << 16 | kind, flags << 24 | len(body)) + body


class Decoder:
    """Bytes to frames, however they are cut."""

    def __init__(self) -> None:
        self._unzip = zlib.decompressobj(zdict=DICTIONARY)
        self._rest = b""
        self._stream = 0
        self._left = 0
        """Bytes of a DATA frame of ``_stream`` still to come."""
        self._fin = False

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now. Raises FrameError."""
        view = self._rest + data if self._rest else data
        found: list[Frame] = []
        at = 0
        while True:
            if self._left:
                piece = view[at : at + self._left]
                if not piece:
                    break
                at += len(piece)
                self._left -= len(piece)
                found.append(Data(self._stream, piece, self._fin and not self._left))
                continue
            if len(view) - at < 8:
                break
            first, second = _PAIR.unpack_from(view, at)
            length, flags = second & 0xFFFFFF, second >> 24
            if not first & 0x80000000:
                self._begin_data(first, length, fin=bool(flags & FIN))
                at += 8
                if not length:
                    found.append(Data(first, b"", self._fin))
                continue
            if length > MAX_CONTROL:
                raise FrameError(f"a control frame of {length} bytes is too large")
            if len(view) - at - 8 < length:
                break
            body = view[at + 8 : at + 8 + length]
            at += 8 + length
            frame = self._read(first >> 16 & 0x7FFF, first & 0xFFFF, flags, body)
            if frame is not None:
                found.append(frame)
        self._rest = view[at:]
        return found

    def _begin_data(self, stream: int, length: int, *, fin: bool) -> None:
        if stream == 0:
            raise FrameError("stream id zero is disallowed")
        self._stream, self._left, self._fin = stream, length, fin

    def _read(self, version: int, kind: int, flags: int, body: bytes) -> Frame | None:
        if version != VERSION:
            raise FrameError(f"SPDY version {version} is not spoken here")
        try:
            frame = self._parse(kind, flags, body)
        except (struct.error, zlib.error, IndexError, UnicodeDecodeError) as err:
            raise FrameError(f"invalid control frame of type {kind}: {err}") from err
        if isinstance(frame, SynStream | SynReply | HeadersFrame | RstStream) and not frame.stream:
            raise FrameError("stream id zero is disallowed")
        return frame

    def _parse(self, kind: int, flags: int, body: bytes) -> Frame | None:
        fin = bool(flags & FIN)
        match kind:
            case 1:
                stream, associated, priority, _slot = _SYN.unpack_from(body)
                headers = self._headers(body[10:])
                one_way = bool(flags & UNIDIRECTIONAL)
                return SynStream(
                    stream & 0x7FFFFFFF, headers, fin, one_way, associated, priority >> 5
                )
            case 2:
                return SynReply(_stream_id(body), self._headers(body[4:]), fin)
            case 8:
                return HeadersFrame(_stream_id(body), self._headers(body[4:]), fin)
            case 3:
                return RstStream(*_PAIR.unpack(body))
            case 4:
                (count,) = _WORD.unpack_from(body)
                if count > (len(body) - 4) // 8:
                    raise FrameError("a SETTINGS frame is shorter than it says")
                pairs = (_PAIR.unpack_from(body, 4 + 8 * i) for i in range(count))
                return Settings({key & 0xFFFFFF: value for key, value in pairs})
            case 6:
                return Ping(*_WORD.unpack(body))
            case 7:
                return GoAway(*_PAIR.unpack(body))
            case 9:
                stream, delta = _PAIR.unpack(body)
                return WindowUpdate(stream & 0x7FFFFFFF, delta & 0x7FFFFFFF)
            case _:
                return None

    def _headers(self, block: bytes) -> dict[str, str]:
        raw = self._unzip.decompress(block, MAX_HEADER_BLOCK)
        if self._unzip.unconsumed_tail:
            raise FrameError("a header block is too large")
        (count,) = _WORD.unpack_from(raw)
        headers: dict[str, str] = {}
        at = 4
        for _ in range(count):
            name, at = _text(raw, at)
            value, at = _text(raw, at)
            if name in headers:
                raise FrameError(f"multiple headers with same name: {name}")
            headers[name.lower()] = value
        return headers


def _stream_id(body: bytes) -> int:
    (stream,) = _WORD.unpack_from(body)
    return int(stream) & 0x7FFFFFFF


def _text(raw: bytes, at: int) -> tuple[str, int]:
    (length,) = _WORD.unpack_from(raw, at)
    end = at + 4 + length
    if end > len(raw):
        raise IndexError("a header ends behind its block")
    return raw[at + 4 : end].decode(), end
