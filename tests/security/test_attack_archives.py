"""Archives of pods and registries: headers that take for ever, holes, members without end."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from corral.cluster.node.pulling.modules import extract
from corral.families.spot.backups.directory_engine import repack
from corral.oci import InvalidArtifact, TooLarge

LONG = 4 << 20
KINDS = {
    "attributes": tarfile.XHDTYPE,
    "of all": tarfile.XGLTYPE,
    "name": tarfile.GNUTYPE_LONGNAME,
    "link": tarfile.GNUTYPE_LONGLINK,
}


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size
    return made.tobuf(tarfile.GNU_FORMAT)


def hostile(kind: bytes) -> bytes:
    """What stands before a member, digits from one end to the other, and the member."""
    return header(kind, LONG) + b"1" * LONG + header(tarfile.REGTYPE, 0) + bytes(1024)


@pytest.mark.attack(
    "spot jobs",
    "has the operator stand still over an archive of a directory: attributes of megabytes",
    "what is said of a member may have 10 KiB, else the backup fails",
)
@pytest.mark.parametrize("kind", KINDS)
def test_long_headers_of_a_directory(tmp_path: Path, kind: str) -> None:
    raw = tmp_path / "raw.tar"
    raw.write_bytes(hostile(KINDS[kind]))
    with pytest.raises(tarfile.ReadError, match="and may have 10240"):
        repack(raw, tmp_path / "layer.tar", "state")


@pytest.mark.attack(
    "modules",
    "has a node stand still over a layer of an image: attributes of megabytes",
    "what is said of a member may have 10 KiB, else the image is refused",
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compressed", [False, True])
def test_long_headers_of_a_layer(tmp_path: Path, kind: str, compressed: bool) -> None:
    layer = tmp_path / "layer"
    content = hostile(KINDS[kind])
    layer.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(InvalidArtifact, match="and may have 10240"):
        extract(layer, compressed=compressed, wanted=(), target=tmp_path / "m.wasm", limit=64 << 20)


@pytest.mark.attack(
    "spot jobs",
    "fills the operator's disk by an archive of a few kilobytes that is full of holes",
    "files are counted with their holes",
)
def test_holes_of_a_directory(tmp_path: Path) -> None:
    whole = io.BytesIO()
    size = 1 << 40
    with tarfile.open(fileobj=whole, mode="w") as tar:
        made = tarfile.TarInfo("holes")
        made.pax_headers = {
            "GNU.sparse.map": "0,1",
            "GNU.sparse.size": str(size),
            "GNU.sparse.numblocks": "1",
        }
        made.size = 1
        tar.addfile(made, io.BytesIO(b"x"))
    raw, layer = tmp_path / "raw.tar", tmp_path / "layer.tar"
    raw.write_bytes(whole.getvalue())
    with pytest.raises(tarfile.ReadError, match="its files have more than 1048576 bytes"):
        repack(raw, layer, "state", most=1 << 20)
    assert layer.stat().st_size < 1 << 20


@pytest.mark.attack(
    "modules",
    "fills a node's or the operator's memory by an archive of many empty members",
    "members are forgotten as they are read",
)
def test_members_without_end(tmp_path: Path) -> None:
    count = 20_000
    raw = tmp_path / "raw.tar"
    raw.write_bytes(header(tarfile.REGTYPE, 0, "some/name") * count + bytes(1024))
    tracemalloc.start()
    try:
        assert repack(raw, tmp_path / "layer.tar", "state") == count
        target = tmp_path / "m.wasm"
        assert not extract(raw, compressed=False, wanted=(), target=target, limit=64 << 20)
        with pytest.raises((InvalidArtifact, TooLarge)):
            extract(raw, compressed=False, wanted=(), target=target, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_long_names_are_read(tmp_path: Path) -> None:
    """As long as a file system has them, in each of the forms that tar writes."""
    name = "/".join(["d" * 200] * 20)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        raw, layer = tmp_path / f"raw{form}", tmp_path / f"layer{form}"
        with tarfile.open(raw, "w", format=form) as tar:
            made = tarfile.TarInfo(name)
            made.type, made.linkname = tarfile.SYMTYPE, name
            tar.addfile(made)
        assert repack(raw, layer, "state") == 1
        with tarfile.open(layer) as tar:
            (found,) = tar.getmembers()
        assert (found.name, found.linkname) == (f"state/{name}", name)
