"""Directories from images: the newest that is intact, and nothing that leaves the directory."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.families.spot.backups.directory_engine import repack
from corral.oci import OWN, Artifacts, Reference, Unavailable, push_image
from corral.podtools.snapshots import DIRECTORY_NOTE, Snapshots, main, unpack
from tests.registries import RunningRegistry, running_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


def archive(path: Path, members: dict[str, str | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w") as out:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                out.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content.encode()))
    return path


def link(target: str, *, hard: bool = False) -> tarfile.TarInfo:
    made = tarfile.TarInfo()
    made.type = tarfile.LNKTYPE if hard else tarfile.SYMTYPE
    made.linkname = target
    return made


def pipe() -> tarfile.TarInfo:
    made = tarfile.TarInfo()
    made.type = tarfile.FIFOTYPE
    return made


class TestRepack:
    def test_everything_is_below_the_directory(self, tmp_path: Path) -> None:
        members = {
            "./a": "1",
            "./sub/b": "2",
            "./newest": link("sub/b"),
            "./same": link("./a", hard=True),
        }
        raw = archive(tmp_path / "raw.tar", {**members, "./pipe": pipe()})
        assert repack(raw, tmp_path / "layer.tar", "var/state") == 4
        unpack(tmp_path / "layer.tar", tmp_path / "out", "/var/state")
        assert (tmp_path / "out/sub/b").read_text() == "2"
        assert os.readlink(tmp_path / "out/newest") == "sub/b"
        assert (tmp_path / "out/same").read_text() == "1"
        assert not (tmp_path / "out/pipe").exists()

    @pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up"])
    def test_names_that_lead_out_are_refused(self, tmp_path: Path, name: str) -> None:
        raw = archive(tmp_path / "raw.tar", {name: "1"})
        with pytest.raises(tarfile.TarError, match="leads out"):
            repack(raw, tmp_path / "layer.tar", "state")

    def test_a_torn_one_is_refused(self, tmp_path: Path) -> None:
        raw = archive(tmp_path / "raw.tar", {"a": "x" * 100_000})
        raw.write_bytes(raw.read_bytes()[:50_000])
        with pytest.raises(tarfile.TarError):
            repack(raw, tmp_path / "layer.tar", "state")


class TestUnpack:
    def test_what_is_elsewhere_is_left_out(self, tmp_path: Path) -> None:
        layer = archive(tmp_path / "layer.tar", {"state/a": "1", "statement": "2", "etc/b": "3"})
        unpack(layer, tmp_path / "out", "/state")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]

    def test_nothing_is_written_through_a_link(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        members = {"state/way": link(str(outside)), "state/way/file": "1"}
        layer = archive(tmp_path / "layer.tar", members)
        with pytest.raises(tarfile.TarError):
            unpack(layer, tmp_path / "out", "/state")
        assert list(outside.iterdir()) == []

    def test_hard_links_stay_inside(self, tmp_path: Path) -> None:
        layer = archive(tmp_path / "layer.tar", {"state/a": link("etc/passwd", hard=True)})
        with pytest.raises(tarfile.TarError, match="link out of"):
            unpack(layer, tmp_path / "out", "/state")


class Errand:
    """An init container's surroundings."""

    def __init__(self, registry: RunningRegistry, root: Path) -> None:
        self.registry = registry
        self.root = root
        self.said: list[str] = []

    async def store(self, tag: str, files: dict[str, str], *, directory: str = "/state") -> str:
        members: dict[str, str | tarfile.TarInfo] = {f"state/{k}": v for k, v in files.items()}
        layer = archive(self.root.parent / f"{tag}.tar", members)
        async with Artifacts(self.registry.registries()) as artifacts:
            pushed = await push_image(
                artifacts,
                Reference.parse(f"{OWN}/team/{self.root.parent.name}:{tag}"),
                layer,
                created=1.0,
                annotations={DIRECTORY_NOTE: directory},
            )
        return pushed.reference.image

    def snapshots(self, *images: str, url: str = "") -> Snapshots:
        env = {
            "CORRAL_DIRECTORY": str(self.root),
            "CORRAL_DIRECTORY_NAME": "state",
            "CORRAL_DIRECTORY_IMAGES": json.dumps(images),
            "CORRAL_REGISTRIES": json.dumps({OWN: url or self.registry.url}),
        }
        return Snapshots(env, say=self.said.append, patience=0.0)


@pytest.fixture
def errand(registry: RunningRegistry, tmp_path: Path) -> Errand:
    return Errand(registry, tmp_path / "state")


class TestRestore:
    async def test_the_first_that_is_good(self, errand: Errand) -> None:
        old = await errand.store("old", {"a": "1"})
        new = await errand.store("new", {"a": "2", "sub/b": "3"})
        assert await errand.snapshots(new, old).restore() == new
        assert (errand.root / "a").read_text() == "2"
        assert (errand.root / "sub/b").read_text() == "3"
        assert sorted(os.listdir(errand.root)) == ["a", "sub"]

    async def test_bad_ones_are_passed_over(self, errand: Errand) -> None:
        good = await errand.store("good", {"a": "1"})
        other = await errand.store("other", {"a": "2"}, directory="/elsewhere")
        gone = f"{OWN}/team/none:gone"
        assert await errand.snapshots(gone, other, good).restore() == good
        assert sum("is passed over" in text for text in errand.said) == 2

    async def test_none_is_good(self, errand: Errand) -> None:
        errand.root.mkdir()
        (errand.root / "kept").write_text("")
        assert await errand.snapshots(f"{OWN}/team/none:gone").restore() is None
        assert os.listdir(errand.root) == ["kept"]

    async def test_what_is_there_gives_way_and_what_a_try_left_goes(self, errand: Errand) -> None:
        image = await errand.store("one", {"sub/b": "3"})
        (errand.root / "sub").mkdir(parents=True)
        (errand.root / "sub" / "old").write_text("")
        (errand.root / ".corral-restore-1").mkdir()
        await errand.snapshots(image).restore()
        assert [str(path.relative_to(errand.root)) for path in errand.root.rglob("*")] == [
            "sub",
            "sub/b",
        ]

    async def test_a_registry_that_is_away_is_no_reason_to_begin_anew(self, errand: Errand) -> None:
        snapshots = errand.snapshots(f"{OWN}/team/any:one", url="http://127.0.0.1:1")
        with pytest.raises(Unavailable):
            await snapshots.restore()


async def test_push_stores_a_file_and_removes_it(registry: RunningRegistry, tmp_path: Path) -> None:
    file = archive(tmp_path / "dump.tar", {"config.dump": "{}"})
    env = {
        "CORRAL_FILE": str(file),
        "CORRAL_IMAGE": f"{OWN}/team/dump:one",
        "CORRAL_CREATED": "7",
        "CORRAL_NOTES": json.dumps({"a": "b"}),
        "CORRAL_REGISTRIES": json.dumps({OWN: registry.url}),
    }
    stored = json.loads(await Snapshots(env, say=lambda _: None).push())
    assert os.listdir(tmp_path) == []
    async with Artifacts(registry.registries()) as artifacts:
        manifest = await artifacts.manifest(Reference.parse(stored["image"]))
    assert dict(manifest.annotations) == {"a": "b"} and stored["size"] == manifest.size


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["else"]) == 2
    assert "usage" in capsys.readouterr().out
