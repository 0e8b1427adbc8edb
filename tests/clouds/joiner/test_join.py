"""VMs join over a real sshd, and only the right ones, with tokens that nobody else sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clouds import BadRequest
from corral.clouds.joiner import (
    BootstrapToken,
    Cluster,
    HostKeyRefused,
    JoinRefused,
    JoinSettings,
    KeyNotAccepted,
    NotReachable,
    join,
)
from tests.clouds.joiner.vm import Machine, Tokens, make_key

HASH = "sha256:" + "ab" * 32
CLUSTER = Cluster(
    endpoint="10.0.0.1:6443",
    ca_hashes=[HASH],
    labels={"corral.dev/spot": "true"},
    taints=[{"key": "corral.dev/spot", "value": "true", "effect": "NoSchedule"}],
)
QUICK = JoinSettings(boot_s=20, join_s=30, pause_s=0.05)
AT_ONCE = replace(QUICK, boot_s=0.0)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    (made.cluster / "ca-hash").write_text(HASH)
    yield made
    made.stop()


@pytest.fixture
def tokens(machine: Machine) -> Tokens:
    return Tokens(machine.cluster)


def joined(machine: Machine) -> list[dict[str, object]]:
    path = machine.cluster / "joined"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_a_vm_joins_once(machine: Machine, tokens: Tokens) -> None:
    machine.boot()
    assert await join("trainer-0", machine.login(), CLUSTER, tokens, QUICK) is True
    (record,) = joined(machine)
    (token,) = tokens.put_ones
    assert record["config"] == {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "token": token.value,
                "apiServerEndpoint": "10.0.0.1:6443",
                "caCertHashes": [HASH],
                "unsafeSkipCAVerification": False,
            }
        },
        "nodeRegistration": {
            "name": "trainer-0",
            "kubeletExtraArgs": [{"name": "node-labels", "value": "corral.dev/spot=true"}],
            "taints": [{"key": "corral.dev/spot", "value": "true", "effect": "NoSchedule"}],
        },
    }
    assert not machine.has_file(str(record["file"]))
    assert tokens.left() == []
    assert await join("trainer-0", machine.login(), CLUSTER, tokens, QUICK) is False
    assert len(joined(machine)) == 1
    assert tokens.left() == []
    assert tokens.put_ones[0].value != tokens.put_ones[1].value


async def test_a_token_of_somebody_else_is_used_and_left_alone(
    machine: Machine, tokens: Tokens
) -> None:
    machine.boot()
    token = BootstrapToken.parse("abcdef.0123456789abcdef")
    await tokens.put(token, "")
    assert await join("trainer-0", machine.login(), CLUSTER, tokens, QUICK, given_token=token)
    assert tokens.put_ones == [token]
    assert tokens.left() == ["abcdef"]


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
async def test_whoever_has_another_host_key_gets_no_token(
    machine: Machine, tokens: Tokens, tmp_path: Path, kind: str
) -> None:
    machine.boot()
    _, other = make_key(tmp_path / "other", kind)
    with pytest.raises(HostKeyRefused, match="is not trainer-0"):
        await join("trainer-0", machine.login(host_keys=[other]), CLUSTER, tokens, QUICK)
    assert tokens.put_ones == []
    assert joined(machine) == []


async def test_one_of_several_known_host_keys_is_enough(
    machine: Machine, tokens: Tokens, tmp_path: Path
) -> None:
    machine.boot()
    keys = [make_key(tmp_path / "other")[1], machine.host_key[1]]
    assert await join("trainer-0", machine.login(host_keys=keys), CLUSTER, tokens, QUICK)


async def test_without_a_host_key_nothing_is_tried(machine: Machine, tokens: Tokens) -> None:
    for keys in ([], ["not a key"]):
        with pytest.raises(BadRequest, match="host key"):
            await join("trainer-0", machine.login(host_keys=keys), CLUSTER, tokens, QUICK)


async def test_a_key_the_vm_does_not_know(machine: Machine, tokens: Tokens, tmp_path: Path) -> None:
    machine.boot()
    private, _ = make_key(tmp_path / "other")
    with pytest.raises(KeyNotAccepted, match="Permission denied"):
        await join("trainer-0", machine.login(private_key=private), CLUSTER, tokens, AT_ONCE)
    assert tokens.put_ones == []


async def test_a_vm_that_boots_slowly_is_waited_for(machine: Machine, tokens: Tokens) -> None:
    knocks = []

    async def pause(seconds: float) -> None:
        knocks.append(seconds)
        if len(knocks) == 3:
            machine.boot()

    patient = replace(QUICK, pause=pause)
    assert await join("trainer-0", machine.login(), CLUSTER, tokens, patient)
    assert knocks == [QUICK.pause_s] * 3


async def test_a_vm_that_never_boots_is_given_up(machine: Machine, tokens: Tokens) -> None:
    with pytest.raises(NotReachable, match="did not let us in"):
        await join("trainer-0", machine.login(), CLUSTER, tokens, AT_ONCE)
    assert tokens.put_ones == []


async def test_a_refused_token_is_told_without_it(machine: Machine, tokens: Tokens) -> None:
    machine.boot()
    tokens.good = False
    with pytest.raises(JoinRefused, match="JWS signature") as refused:
        await join("trainer-0", machine.login(), CLUSTER, tokens, QUICK)
    (token,) = tokens.put_ones
    assert token.secret not in str(refused.value)
    assert "***" in str(refused.value)
    assert joined(machine) == []
    tokens.good = True
    assert await join("trainer-0", machine.login(), CLUSTER, tokens, QUICK)


async def test_a_cluster_with_another_ca_is_not_trusted(machine: Machine, tokens: Tokens) -> None:
    machine.boot()
    other = replace(CLUSTER, ca_hashes=["sha256:" + "cd" * 32])
    with pytest.raises(JoinRefused, match="pinned"):
        await join("trainer-0", machine.login(), other, tokens, QUICK)
    assert tokens.left() == []


async def test_a_kubeadm_that_hangs_is_given_up(machine: Machine, tokens: Tokens) -> None:
    machine.boot()
    (machine.cluster / "hang").touch()
    with pytest.raises(JoinRefused, match="did not end"):
        await join("trainer-0", machine.login(), CLUSTER, tokens, replace(QUICK, join_s=1.0))
    assert tokens.left() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ca_hashes": []}, "caCertHash"),
        ({"ca_hashes": ["sha256:short"]}, "caCertHash"),
        ({"endpoint": "https://10.0.0.1"}, "host:port"),
    ],
)
async def test_a_cluster_that_cannot_be_checked_gets_no_nodes(
    machine: Machine, tokens: Tokens, change: dict[str, object], words: str
) -> None:
    machine.boot()
    with pytest.raises(BadRequest, match=words):
        await join(
            "trainer-0",
            machine.login(),
            replace(CLUSTER, **change),
            tokens,
            QUICK,  # type: ignore[arg-type]
        )
    assert tokens.put_ones == []
