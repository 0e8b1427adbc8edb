from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.security import (
    DEFAULT,
    HOST_ACCESS,
    ignored,
    privileges_of,
    refusal,
    shared_with_machine,
)
from corral.cluster.node.volumes.sources import ConfigError

ROOT = Path("/var/lib/checkpoints")


def pod(context: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "securityContext": context or {}}
    return {
        "metadata": {"name": "p", "namespace": "mine"},
        "spec": {"containers": [container], **spec},
    }


def privileges(context: dict[str, Any], **of_pod: Any) -> dict[str, Any]:
    made = pod(context, securityContext=of_pod)
    return privileges_of(made, made["spec"]["containers"][0], max_processes=7)


def test_what_a_container_has_by_default() -> None:
    assert privileges({}) == {
        "capabilities": sorted(DEFAULT), "noNewPrivileges": True, "seccomp": True,
        "maxProcesses": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        ({"drop": ["ALL"]}, set()),
        ({"drop": ["all"], "add": ["CAP_CHOWN"]}, {"CHOWN"}),
        ({"drop": ["NET_RAW"]}, DEFAULT - {"NET_RAW"}),
        ({"add": ["SYS_PTRACE"]}, DEFAULT | {"SYS_PTRACE"}),
    ],
)
def test_capabilities(wanted: dict[str, Any], result: set[str]) -> None:
    assert set(privileges({"capabilities": wanted})["capabilities"]) == result


@pytest.mark.parametrize(
    ("context", "result"),
    [
        ({"allowPrivilegeEscalation": True}, False),
        ({"allowPrivilegeEscalation": False}, True),
        ({"privileged": True}, False),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, False),
    ],
)
def test_new_privileges(context: dict[str, Any], result: bool) -> None:
    assert privileges(context)["noNewPrivileges"] is result


def test_the_profile_of_the_container_comes_first() -> None:
    unconfined, default = {"type": "Unconfined"}, {"type": "RuntimeDefault"}
    assert not privileges({}, seccompProfile=unconfined)["seccomp"]
    assert privileges({"seccompProfile": default}, seccompProfile=unconfined)["seccomp"]


def test_privileged_is_everything() -> None:
    found = privileges({"privileged": True})
    assert "SYS_ADMIN" in found["capabilities"] and not found["seccomp"]
    assert shared_with_machine(pod({"privileged": True})) == ["user"]
    with pytest.raises(ConfigError, match="allowPrivilegeEscalation"):
        privileges({"privileged": True, "allowPrivilegeEscalation": False})


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]), "path"),
        (pod(hostNetwork=True), "network"), (pod(hostPID=True), "pid"),
        (pod(hostIPC=True), "ipc"), (pod(hostUsers=True), "users"),
        (pod({"privileged": True}), "privileged"),
        (pod({"capabilities": {"add": ["SYS_ADMIN"]}}), "capabilities"),
    ],
)  # fmt: skip
def test_the_machine_is_for_those_who_may(made: dict[str, Any], kind: str) -> None:
    others = set(HOST_ACCESS) - {kind}
    refused = refusal(made, mode="root", allowed=others)
    assert refused is not None and refused.reason == "HostAccessForbidden"
    assert f"--allow-host-access {kind}" in refused.message
    assert refusal(made, mode="root", allowed={kind}) is None


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (ROOT / "mine/job/uid", True), (ROOT / "other/job/uid", False), (ROOT / "mine", False),
        (ROOT / "mine/job/uid/inside", False), (ROOT / "mine/../other/uid", False), (ROOT, False),
    ],
)  # fmt: skip
def test_folders_of_jobs(path: Path, allowed: bool) -> None:
    """What the operator keeps for a job is for pods of its namespace."""
    made = pod(volumes=[{"name": "v", "hostPath": {"path": str(path)}}])
    assert (refusal(made, mode="root", allowed=(), shared=[ROOT]) is None) == allowed


@pytest.mark.parametrize(
    "context",
    [
        {"capabilities": {"add": ["NONSENSE"]}}, {"seLinuxOptions": {"level": "s0"}},
        {"seccompProfile": {"type": "Localhost"}}, {"appArmorProfile": {"type": "Localhost"}},
        {"windowsOptions": {"hostProcess": True}}, {"runAsUser": 65536},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(context: dict[str, Any]) -> None:
    refused = refusal(pod(context), mode="root", allowed=())
    assert refused is not None and refused.reason == "SecurityContextNotSupported"
    assert 'container "main"' in refused.message


def test_the_old_annotation_of_a_profile_is_refused() -> None:
    made = pod()
    made["metadata"]["annotations"] = {f"{APPARMOR}/main": "localhost/mine"}
    refused = refusal(made, mode="root", allowed=())
    assert refused is not None and 'container "main"' in refused.message
    made["metadata"]["annotations"] = {f"{APPARMOR}/main": "runtime/default"}
    assert refusal(made, mode="root", allowed=()) is None


APPARMOR = "container.apparmor.security.beta.kubernetes.io"


def test_sysctls() -> None:
    safe = {"name": "net.ipv4.tcp_syncookies", "value": "1"}
    made = pod(securityContext={"sysctls": [safe]})
    assert refusal(made, mode="root", allowed=()) is None
    for mode, name in (("user", safe["name"]), ("root", "kernel.core_pattern")):
        made = pod(securityContext={"sysctls": [{"name": name, "value": "1"}]})
        refused = refusal(made, mode=mode, allowed=())  # type: ignore[arg-type]
        assert refused is not None and refused.reason == "SysctlForbidden"


def test_what_plain_leaves_out() -> None:
    assert ignored(pod()) == []
    context = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
    assert ignored(pod(context)) == ["allowPrivilegeEscalation", "readOnlyRootFilesystem"]
