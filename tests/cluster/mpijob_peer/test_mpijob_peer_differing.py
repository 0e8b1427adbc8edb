"""The comparison with the peer sees what it should see; needs no cluster."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.cluster.mpijob_peer.differing import compare, not_meant
from tests.cluster.mpijob_peer.story import Snapshot

MAIN = {
    "name": "main",
    "image": "i",
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
}
KEY = "-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n"


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def snapshot(key: str = "a" * 64) -> Snapshot:
    pod: dict[str, Any] = {
        "metadata": {"name": "pi-launcher-x2x4z", "resourceVersion": "7"},
        "spec": {"containers": [MAIN]},
        "status": {"phase": "Pending"},
    }
    secret = {"metadata": {"name": "pi-ssh"}, "data": {"ssh-privatekey": encoded(KEY.format(key))}}
    job = {"metadata": {"name": "pi"}, "status": {"conditions": [{"type": "Created"}]}}
    return deepcopy({"Pod pi-launcher-": pod, "Secret pi-ssh": secret, "MPIJob pi": job})


def test_names_versions_keys_and_the_clusters_statuses_do_not_count() -> None:
    ours, theirs = snapshot(), snapshot("b" * 64)
    theirs["Pod pi-launcher-"]["metadata"] = {"name": "pi-launcher-bbbbb", "resourceVersion": "9"}
    theirs["Pod pi-launcher-"]["status"] = {"phase": "Running"}
    assert compare(ours, theirs) == []


def container(found: Snapshot) -> dict[str, Any]:
    inner: dict[str, Any] = found["Pod pi-launcher-"]["spec"]["containers"][0]
    return inner


CHANGES: dict[str, tuple[Callable[[Snapshot], object], str]] = {
    "a value": (
        lambda ours: container(ours).update(image="other"),
        'Pod pi-launcher-.spec.containers.main.image: ours "other" theirs "i"',
    ),
    "one more variable": (
        lambda ours: container(ours)["env"].insert(0, {"name": "C", "value": "3"}),
        'Pod pi-launcher-.spec.containers.main.env.C: ours has {"name": "C", "value": "3"}',
    ),
    "one less": (
        lambda ours: container(ours)["env"].pop(),
        'Pod pi-launcher-.spec.containers.main.env.B: ours is missing {"name": "B", "value": "2"}',
    ),
    "the order": (
        lambda ours: container(ours)["env"].reverse(),
        'Pod pi-launcher-.spec.containers.main.env.(order)[0]: ours "B" theirs "A"',
    ),
    "another kind of key": (
        lambda ours: ours["Secret pi-ssh"].update(
            data={"ssh-privatekey": encoded(KEY.format("a" * 64).replace("EC", "RSA"))}
        ),
        "Secret pi-ssh.data.ssh-privatekey[0]: ours "
        '"-----BEGIN RSA PRIVATE KEY-----" theirs "-----BEGIN EC PRIVATE KEY-----"',
    ),
    "a condition of the job": (
        lambda ours: ours["MPIJob pi"]["status"]["conditions"].append({"type": "Running"}),
        'MPIJob pi.status.conditions.Running: ours has {"type": "Running"}',
    ),
    "a whole object": (
        lambda ours: ours.pop("Secret pi-ssh"),
        "Secret pi-ssh: theirs alone",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_everything_else_does(what: str) -> None:
    change, line = CHANGES[what]
    ours = snapshot()
    change(ours)
    found = compare(ours, snapshot())
    assert line in found
    assert not_meant(found) == found


def test_what_is_meant_is_left_out() -> None:
    meant = 'MPIJob pi.metadata.finalizers: ours has ["corral.dev/mpijob-cleanup"]'
    other = 'MPIJob pi.metadata.finalizers: ours has ["other"]'
    assert not_meant([meant, other]) == [other]
