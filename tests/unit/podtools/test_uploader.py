"""The uploader: what they fetch, what they deliver, and what they leave alone."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.oci import Artifacts, Layer, Reference
from corral.podtools.uploader.envelopes import MESSAGE_LIMIT, Unfit, envelope_of, inlined
from corral.podtools.uploader.uploader import Uploader
from tests.backends.base import free_port
from tests.cluster.objects import eventually
from tests.registries import RunningRegistry, running_registry

Obj = dict[str, Any]
ROUND = {
    "ROUND_ID": "round-3",
    "PROPLET_ID": "p1",
    "TASK_ID": "round-3-job-p1",
    "FL_JOB_ID": "exp",
    "FL_GLOBAL_VERSION": "v2",
    "FL_GLOBAL_UPDATE_FORMAT": "f32-le",
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


class Place:
    """An uploader with its folder."""

    def __init__(self, folder: Path, registry: RunningRegistry, **env: str) -> None:
        self.folder = folder
        self.said: list[str] = []
        pairs = dict(pair.split("=", 1) for pair in registry.pairs())
        known = {
            **ROUND,
            "FL_DIR": str(folder),
            "FL_UPDATE_REF": f"{registry.base}/ns/job/updates:task",
            "CORRAL_REGISTRIES": json.dumps(pairs),
        }
        self.env = {key: value for key, value in {**known, **env}.items() if value}
        self.uploader = Uploader(self.env, say=self.said.append)

    def write(self, name: str, content: bytes | Obj) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (self.folder / name).write_bytes(data)

    def delivered(self) -> Obj:
        found: Obj = json.loads(self.uploader.last_words())
        return found


@pytest.fixture
def place(tmp_path: Path, registry: RunningRegistry) -> Place:
    return Place(tmp_path, registry)


def stored(registry: RunningRegistry, reference: str) -> bytes:
    async def read() -> bytes:
        async with Artifacts(registry.registries()) as artifacts:
            where = Reference.parse(reference)
            manifest = await artifacts.manifest(where)
            pieces = artifacts.stream(where, manifest.layers[0])
            return b"".join([piece async for piece in pieces])

    return asyncio.run(read())


def push(registry: RunningRegistry, reference: str, content: bytes) -> str:
    async def write() -> str:
        async with Artifacts(registry.registries()) as artifacts:
            layer = Layer("application/octet-stream", content)
            pushed = await artifacts.push(Reference.parse(reference), [layer], artifact_type="a/b")
            return str(pushed.reference)

    return asyncio.run(write())


# --- delivering ----------------------------------------------------------------------------------


def test_a_small_update_is_in_the_message(place: Place) -> None:
    place.write("update", b"\0\1\2\3")
    place.write("result.json", {"num_samples": 7, "metrics": {"loss": 0.5}})
    assert place.delivered() == {
        "num_samples": 7,
        "metrics": {"loss": 0.5},
        "task_id": "round-3-job-p1",
        "job_id": "exp",
        "round_id": "round-3",
        "proplet_id": "p1",
        "global_version": "v2",
        "format": "f32-le",
        "update_b64": base64.b64encode(b"\0\1\2\3").decode(),
    }


def test_a_large_one_is_an_artifact(place: Place, registry: RunningRegistry) -> None:
    content = os.urandom(300_000)
    place.write("update", content)
    place.write("result.json", {"update_envelope": {"num_samples": 7, "format": "npy"}})
    envelope = place.delivered()["update_envelope"]
    assert "update_b64" not in envelope
    assert (envelope["update_bytes"], envelope["format"]) == (len(content), "npy")
    assert envelope["update_ref"].endswith(f"@{envelope['update_digest']}")
    assert envelope["update_ref"].startswith("oci://registry.corral.local/ns/job/updates:task@")
    assert stored(registry, envelope["update_ref"]) == content


def test_what_is_kept_for_good_is_an_artifact_however_small(
    tmp_path: Path, registry: RunningRegistry
) -> None:
    place = Place(tmp_path, registry, FL_INLINE="never")
    place.write("update", b"1234")
    place.write("result.json", {"num_samples": 1, "format": "f32-le"})
    said = place.delivered()
    assert said["update_ref"].startswith("oci://")
    assert "update_b64" not in said


def test_a_large_payload_in_the_envelope_becomes_one_too(
    place: Place, registry: RunningRegistry
) -> None:
    content = os.urandom(10_000)
    text = base64.b64encode(content).decode()
    place.write("result.json", {"results": {"update_envelope": {"update_b64": text}}})
    envelope = place.delivered()["results"]["update_envelope"]
    assert "update_b64" not in envelope
    assert stored(registry, envelope["update_ref"]) == content


def test_without_a_result_nothing_is_delivered(place: Place) -> None:
    place.write("update", b"half an upd")
    assert place.uploader.last_words() == ""


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (b"[1]", "result.json is no JSON object"),
        (b"{", "Expecting property name"),
        (b'{"update_b64": "?"}', "update_b64 of result.json is no base64"),
        (b'{"metrics": "' + b"x" * 5000 + b'"}', "put the payload into the file update"),
        (b" " * (2 << 20), "result.json has 2097152 bytes, at most 1048576 are taken"),
    ],
)
def test_what_cannot_be_delivered_is_said(place: Place, result: bytes, why: str) -> None:
    place.write("result.json", result)
    assert why in place.delivered()["courier_error"]
    assert any("nothing was delivered" in line for line in place.said)


def test_without_a_registry(tmp_path: Path, registry: RunningRegistry) -> None:
    place = Place(tmp_path, registry, FL_UPDATE_REF="")
    place.write("update", bytes(5000))
    place.write("result.json", {"num_samples": 1})
    assert "the operator has no registry" in place.delivered()["courier_error"]


@pytest.mark.parametrize("name", ["update", "result.json"])
def test_no_link_is_followed(place: Place, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"num_samples": 1}')
    place.write("result.json", {"num_samples": 1})
    (place.folder / name).unlink(missing_ok=True)
    (place.folder / name).symlink_to(secret)
    assert "update_b64" not in place.delivered() and "courier_error" in place.delivered()


def test_a_pipe_keeps_nobody_waiting(place: Place) -> None:
    os.mkfifo(place.folder / "result.json")
    assert "no ordinary file" in place.delivered()["courier_error"]


# --- progress ------------------------------------------------------------------------------------


def test_progress_is_told_once_for_each_change(place: Place) -> None:
    place.write("progress.json", {"step": 1})
    stop = threading.Event()
    stop.set()
    place.write("result.json", {"num_samples": 1})
    assert json.loads(place.uploader.deliver(stop))["num_samples"] == 1
    assert place.said == ['{"progress":{"step":1}}']
    place.write("progress.json", b"{")
    place.uploader.deliver(stop)
    assert place.said == ['{"progress":{"step":1}}']


# --- fetching ------------------------------------------------------------------------------------


def test_a_model_that_comes_with_the_task(tmp_path: Path, registry: RunningRegistry) -> None:
    text = base64.b64encode(b"weights").decode()
    Place(
        tmp_path, registry, FL_GLOBAL_UPDATE_B64=text, FL_GLOBAL_UPDATE_REF="oci://x/y"
    ).uploader.fetch()
    assert (tmp_path / "model").read_bytes() == b"weights"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("variable", ["FL_GLOBAL_UPDATE_REF", "MODEL_URI"])
def test_a_model_in_the_registry(tmp_path: Path, registry: RunningRegistry, variable: str) -> None:
    reference = push(registry, f"{registry.base}/ns/job/models:round-2", b"weights" * 1000)
    Place(tmp_path, registry, **{variable: reference}).uploader.fetch()
    assert (tmp_path / "model").read_bytes() == b"weights" * 1000


def test_an_initial_model_need_not_be_there(tmp_path: Path, registry: RunningRegistry) -> None:
    place = Place(tmp_path, registry, MODEL_URI=f"{registry.base}/models/initial:v1")
    place.uploader.fetch()
    assert not (tmp_path / "model").exists()
    assert "there is no initial model" in place.said[0]


def test_the_model_of_a_round_must_be_there(tmp_path: Path, registry: RunningRegistry) -> None:
    missing = f"{registry.base}/ns/none/models:round-1"
    env = {**Place(tmp_path, registry, FL_GLOBAL_UPDATE_REF=missing).env, "PATH": os.defpath}
    done = subprocess.run(
        [sys.executable, "-m", "corral.podtools.uploader", "fetch"],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the global model cannot be fetched" in done.stdout


def test_the_process_delivers_when_it_is_told_that_the_task_has_ended(place: Place) -> None:
    message = place.folder / "message"
    place.write("progress.json", {"step": 9})
    process = subprocess.Popen(
        [sys.executable, "-m", "corral.podtools.uploader", "deliver"],
        env={**os.environ, **place.env, "CORRAL_TERMINATION_LOG": str(message)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == '{"progress":{"step":9}}\n'
        place.write("result.json", {"num_samples": 3})
        process.terminate()
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert json.loads(message.read_text())["num_samples"] == 3


# --- envelopes -----------------------------------------------------------------------------------


def test_what_an_envelope_says_stays() -> None:
    result: Obj = {"update_envelope": {"round_id": 4, "job_id": "mine"}}
    envelope = envelope_of(result, ROUND)
    assert (envelope["round_id"], envelope["job_id"]) == (4, "mine")
    assert envelope is result["update_envelope"]


def test_a_message_has_a_limit() -> None:
    with pytest.raises(Unfit, match="does not fit"):
        inlined({}, {}, bytes(MESSAGE_LIMIT + 1))
    envelope: Obj = {}
    with pytest.raises(Unfit, match="at most 4096"):
        inlined(envelope, envelope, bytes(MESSAGE_LIMIT - 8))


def test_a_task_that_has_ended_before_the_courier_has_begun(place: Place) -> None:
    ended = place.folder / "ended"
    ended.touch()
    place.write("result.json", {"num_samples": 3})
    uploader = Uploader({**place.env, "CORRAL_ENDED": str(ended)}, say=place.said.append)
    assert json.loads(uploader.deliver(threading.Event()))["num_samples"] == 3


def test_a_registry_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """It comes back at the same address, and the update is whole."""
    folder, port = tmp_path / "fl", free_port()
    folder.mkdir()
    with running_registry(tmp_path / "registry", port=port) as registry:
        place = Place(folder, registry)
        reference = push(registry, f"{registry.base}/ns/job/models:round-9", b"weights")
    place.env["FL_GLOBAL_UPDATE_REF"] = reference
    uploader = Uploader(place.env, say=place.said.append)
    fetching = threading.Thread(target=uploader.fetch)
    fetching.start()
    try:
        eventually(lambda: any("trying again" in line for line in place.said), seconds=60)
        with running_registry(tmp_path / "registry", port=port):
            fetching.join(60)
    finally:
        fetching.join(60)
    assert (folder / "model").read_bytes() == b"weights"
