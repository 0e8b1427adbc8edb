"""Virtual clients: how they are found, what they get and what they give."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

import pytest

from corral.learning.simulation import ClientProblem, Pool, Work
from corral.learning.simulation.clients import INLINE, answer, load

CLIENT = """
import json, os
from pathlib import Path
import beside

def by_files(env):
    folder = Path(env["FL_DIR"])
    (folder / "update").write_bytes(beside.SAID.encode())
    (folder / "result.json").write_text(json.dumps({"num_samples": 3, "proplet_id": env["ME"]}))

def ends(env):
    os._exit(3)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "beside_it").mkdir()
    (tmp_path / "beside_it" / "beside.py").write_text("SAID = 'hello'\n")
    path = tmp_path / "beside_it" / "virtual_client.py"
    path.write_text(CLIENT)
    return path


def work(**more):
    return Work("a", {"ME": "a"}, **more)


def test_a_client_by_files(program, tmp_path):
    found = answer(load(f"{program}:by_files"), work(), tmp_path)
    assert found.results == {
        "num_samples": 3,
        "proplet_id": "a",
        "update_b64": base64.b64encode(b"hello").decode(),
    }
    # what one has left is not taken for the next one's
    assert answer(lambda env: None, work(), tmp_path).results == {}


def test_a_large_update_stays_a_file(tmp_path):
    keep = tmp_path / "kept"
    keep.mkdir()
    payload = os.urandom(INLINE + 1)
    found = answer(lambda env: {"update": payload}, work(keep=str(keep)), tmp_path).results
    assert found["update_bytes"] == len(payload)
    where, _, digest = found["update_ref"].removeprefix("file://").partition("@sha256:")
    assert Path(where).read_bytes() == payload
    assert digest == hashlib.sha256(payload).hexdigest()


@pytest.mark.parametrize(
    ("raised", "said"), [(ValueError("no data"), "no data"), (SystemExit("stop"), "stop")]
)
def test_what_a_client_raises_is_its_answer(tmp_path, raised, said):
    def client(env):
        raise raised

    assert answer(client, work(), tmp_path).error == said


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nothing", "names no client"),
        ("corral_no_such_module:x", "cannot be loaded"),
        ("json:no_such_function", "has no function"),
        ("/no/such/file.py:x", "cannot be loaded"),
    ],
)
def test_a_client_that_is_not_there(spec, said):
    with pytest.raises(ClientProblem, match=said):
        load(spec)


async def test_many_in_processes_of_their_own(program, tmp_path):
    works = [Work(f"c{n}", {"ME": f"c{n}"}) for n in range(25)]
    with Pool(f"{program}:by_files", folder=tmp_path, workers=2) as pool:
        answers = await pool.run(works)
    assert [one.results["proplet_id"] for one in answers] == [one.client for one in works]
    assert json.dumps([one.error for one in answers]) == json.dumps([""] * 25)


async def test_a_client_that_ends_its_process(program, tmp_path):
    with Pool(f"{program}:ends", folder=tmp_path, workers=1) as pool:
        with pytest.raises(ClientProblem, match="ended the process"):
            await pool.run([work()])
