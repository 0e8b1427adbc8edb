"""What a pod may do is what its security context says, and never more than the node allows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.security.hostile_pods import Attacker, attacker, backend, nodes

__all__ = ["attacker", "backend", "nodes"]

DEFAULT_CAPABILITIES = "00000000a80425fb"
"""CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT
MKNOD AUDIT_WRITE SETFCAP."""


# -- capabilities and system calls -----------------------------------------------------------------


@pytest.mark.attack("privileges", "uses capabilities that nobody gave it", "it has the usual ones")
def test_the_default_capabilities(attacker: Attacker) -> None:
    lines = attacker.tries("print(status('CapBnd'), status('CapInh'), status('CapAmb'))")
    assert lines == [f"{DEFAULT_CAPABILITIES} {'0' * 16} {'0' * 16}"]


@pytest.mark.attack("privileges", "keeps capabilities that were dropped", "they are gone for good")
def test_dropped_capabilities(attacker: Attacker) -> None:
    context = {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
    lines = attacker.tries("print(status('CapBnd'), status('CapEff'))", context=context)
    assert lines[0].split()[0] == "0000000000000400"
    assert int(lines[0].split()[1], 16) & ~0x400 == 0


@pytest.mark.attack("privileges", "has capabilities as another user than root", "it has none")
def test_other_users_have_no_capabilities(attacker: Attacker) -> None:
    lines = attacker.tries(
        "print(os.getuid(), os.getgid(), status('CapEff'), status('CapPrm'))",
        context={"runAsUser": 1234, "runAsGroup": 2345},
    )
    assert lines == [f"1234 2345 {'0' * 16} {'0' * 16}"]


@pytest.mark.attack("privileges", "makes system calls without a filter", "there is one")
def test_the_filter_is_on(attacker: Attacker) -> None:
    assert attacker.tries("print(status('Seccomp'))") == ["2"]


@pytest.mark.attack("privileges", "mounts, unmounts and pivots", "EPERM")
def test_no_mounts(attacker: Attacker) -> None:
    code = """
os.mkdir("/tmp/m")
said(libc.mount(b"none", b"/tmp/m", b"tmpfs", 0, None))
said(libc.mount(b"/usr", b"/tmp/m", None, 4096, None))
said(libc.mount(b"none", b"/usr", None, 32 | 4096, None))
said(libc.umount2(b"/etc", 2)); said(libc.umount2(b"/proc", 2))
for number in (428, 429, 430, 432, 442): call(number, 0, 0, 0, 0, 0)
"""
    assert set(attacker.tries(code)) == {"EPERM"}


@pytest.mark.attack("privileges", "makes a user namespace in which it is root", "EPERM")
def test_no_new_namespaces(attacker: Attacker) -> None:
    code = """
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000): said(libc.unshare(flag))
call(56 if os.uname().machine == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0)
said(libc.setns(0, 0))
"""
    assert set(attacker.tries(code)) == {"EPERM"}


@pytest.mark.attack("privileges", "makes processes by clone3, whose flags no filter sees", "ENOSYS")
def test_no_clone3(attacker: Attacker) -> None:
    assert attacker.tries("call(435, 0, 0)") == ["ENOSYS"]


@pytest.mark.attack("privileges", "uses calls known for their holes", "EPERM")
def test_no_risky_calls(attacker: Attacker) -> None:
    code = """
x86 = os.uname().machine == "x86_64"
for one, other in ((425, 425), (323, 282), (321, 280), (298, 241), (250, 219), (248, 217),
                   (304, 265), (246, 104), (175, 105), (313, 273)):
    call(one if x86 else other, 0, 0, 0, 0, 0)
"""
    assert set(attacker.tries(code)) == {"EPERM"}


@pytest.mark.attack("privileges", "uses calls newer than the filter", "they do not exist")
def test_no_unknown_calls(attacker: Attacker) -> None:
    assert attacker.tries("call(467, 0); call(600, 0)") == ["ENOSYS", "ENOSYS"]


@pytest.mark.attack("privileges", "opens sockets into the kernel and the host", "no such family")
def test_no_risky_sockets(attacker: Attacker) -> None:
    code = "for f in (38, 40): attempt(lambda: socket.socket(f, socket.SOCK_STREAM, 0))"
    assert attacker.tries(code) == ["EAFNOSUPPORT", "EAFNOSUPPORT"]


@pytest.mark.attack("privileges", "changes the clock and the host's name", "EPERM")
def test_no_clock_and_name(attacker: Attacker) -> None:
    code = """
import time
attempt(lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
attempt(lambda: socket.sethostname("owned"))
"""
    assert attacker.tries(code) == ["EPERM", "EPERM"]


@pytest.mark.attack("privileges", "becomes root by a setuid program", "no_new_privs is set")
@pytest.mark.parametrize("said", [{}, {"allowPrivilegeEscalation": False}], ids=["default", "said"])
def test_no_new_privileges(attacker: Attacker, said: dict[str, bool]) -> None:
    context = {**said, "runAsUser": 1000}
    code = "print(status('NoNewPrivs'), os.system('su -c id root </dev/null 2>/dev/null') != 0)"
    assert attacker.tries(code, context=context) == ["1 True"]


@pytest.mark.attack("privileges", "leaves a setuid program in a volume", "volumes are nosuid")
def test_volumes_are_nosuid(attacker: Attacker) -> None:
    code = """
found = [line.split() for line in open("/proc/mounts") if line.split()[1] == "/data"]
print("nosuid" in found[0][3], "nodev" in found[0][3])
"""
    spec = {"volumes": [{"name": "data", "emptyDir": {}}]}
    mounts = [{"name": "data", "mountPath": "/data"}]
    assert attacker.tries(code, mounts=mounts, **spec) == ["True True"]


@pytest.mark.attack("privileges", "writes to a read-only root", "EROFS, and volumes go on working")
def test_read_only_root(attacker: Attacker) -> None:
    code = """
for path in ("/x", "/tmp/x", "/root/x", "/etc/x", "/data/x"):
    attempt(lambda: open(path, "w").write("x"))
"""
    lines = attacker.tries(
        code,
        context={"readOnlyRootFilesystem": True},
        mounts=[{"name": "data", "mountPath": "/data"}],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    assert lines == ["EROFS", "EROFS", "EROFS", "EROFS", "done 1"]


@pytest.mark.attack("privileges", "writes to a Secret that is mounted", "EROFS")
def test_secrets_are_read_only(attacker: Attacker) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"key": "value"}}
    attacker.objects.create("secrets", {"apiVersion": "v1", "kind": "Secret", **secret})
    lines = attacker.tries(
        "print(open('/s/key').read()); attempt(lambda: open('/s/key', 'w'))\n"
        "attempt(lambda: open('/s/other', 'w'))",
        mounts=[{"name": "s", "mountPath": "/s"}],
        volumes=[{"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}}],
    )
    assert lines == ["value", "EROFS", "EROFS"]


@pytest.mark.attack("privileges", "runs as root against runAsNonRoot", "it is not started")
def test_non_root_is_kept(attacker: Attacker) -> None:
    container = {
        "name": "main",
        "image": "python:3.12",
        "command": ["python", "-c", "print(1)"],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 0},
    }
    attacker.run("root", container)

    def waits(pod: dict[str, Any]) -> bool:
        found = pod["status"].get("containerStatuses") or [{}]
        waiting = (found[0].get("state") or {}).get("waiting") or {}
        return "runAsNonRoot" in str(waiting.get("message"))

    attacker.wait("root", waits)


@pytest.mark.attack(
    "privileges", "has more rights in a hook than in its process", "it has the same"
)
def test_hooks_have_the_same_rights(attacker: Attacker) -> None:
    report = (
        "cat /proc/self/status > /data/new; ls /root /dev/shm /home >> /data/new;"
        " mv /data/new /data/hook"
    )
    container = {
        "name": "main",
        "image": "python:3.12",
        "command": ["python", "-c", _WAIT_FOR_HOOK],
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", report]}}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    }
    text = attacker.output("hooked", container, volumes=[{"name": "data", "emptyDir": {}}])
    found = dict(line.split(":", 1) for line in text.splitlines() if ":\t" in line)
    assert found["CapBnd"].strip() == "0" * 16 and found["Seccomp"].strip() == "2"
    assert found["NoNewPrivs"].strip() == "1"


_WAIT_FOR_HOOK = """
import os, time
while not os.path.exists("/data/hook"): time.sleep(0.02)
print(open("/data/hook").read())
"""


# -- what reaches beyond the pod -------------------------------------------------------------------


def _context(**fields: Any) -> dict[str, Any]:
    return {"securityContext": fields}


@pytest.mark.attack("host access", "mounts a folder of the machine", "refused, with the option")
def test_no_host_path(attacker: Attacker) -> None:
    volume = {"name": "root", "hostPath": {"path": "/"}}
    reason, message, events = attacker.refused(volumes=[volume])
    assert reason == "HostAccessForbidden" and "--allow-host-access path" in message
    assert any("--allow-host-access path" in words for words in events)


@pytest.mark.attack("host access", "uses the machine's network", "refused, with the option")
def test_no_host_network(attacker: Attacker) -> None:
    reason, message, _ = attacker.refused(hostNetwork=True)
    assert reason == "HostAccessForbidden" and "--allow-host-access network" in message


@pytest.mark.attack("host access", "sees the machine's processes", "refused, with the option")
def test_no_host_pid(attacker: Attacker) -> None:
    reason, message, _ = attacker.refused(hostPID=True)
    assert reason == "HostAccessForbidden" and "--allow-host-access pid" in message


@pytest.mark.attack("host access", "uses the machine's shared memory", "refused, with the option")
def test_no_host_ipc(attacker: Attacker) -> None:
    reason, message, _ = attacker.refused(hostIPC=True)
    assert reason == "HostAccessForbidden" and "--allow-host-access ipc" in message


@pytest.mark.attack("host access", "has the machine's users", "refused, with the option")
def test_no_host_users(attacker: Attacker) -> None:
    reason, message, _ = attacker.refused(hostUsers=True)
    assert reason == "HostAccessForbidden" and "--allow-host-access users" in message


@pytest.mark.attack("host access", "is privileged", "refused, with the option")
def test_not_privileged(attacker: Attacker) -> None:
    reason, message, _ = attacker.refused(_context(privileged=True))
    assert reason == "HostAccessForbidden" and "--allow-host-access privileged" in message


@pytest.mark.attack("host access", "is privileged in an init container", "refused as well")
def test_init_containers_are_not_privileged(attacker: Attacker) -> None:
    init = {"name": "init", "image": "busybox", "command": ["true"], **_context(privileged=True)}
    reason, message, _ = attacker.refused(initContainers=[init])
    assert reason == "HostAccessForbidden" and '"init" is privileged' in message


@pytest.mark.attack("host access", "adds CAP_SYS_ADMIN, by either name", "refused, with the option")
@pytest.mark.parametrize("name", ["SYS_ADMIN", "CAP_SYS_MODULE", "ALL"])
def test_no_administration(attacker: Attacker, name: str) -> None:
    reason, message, _ = attacker.refused(_context(capabilities={"add": [name]}))
    assert reason == "HostAccessForbidden" and "--allow-host-access capabilities" in message


@pytest.mark.attack("host access", "asks for a profile that is not there", "refused, not ignored")
@pytest.mark.parametrize(
    "context",
    [
        {"seccompProfile": {"type": "Localhost", "localhostProfile": "open.json"}},
        {"appArmorProfile": {"type": "Localhost", "localhostProfile": "open"}},
        {"seLinuxOptions": {"type": "spc_t"}},
    ],
    ids=["seccomp", "apparmor", "selinux"],
)
def test_profiles_are_not_ignored(attacker: Attacker, context: dict[str, Any]) -> None:
    reason, message, _ = attacker.refused({"securityContext": context})
    assert reason == "SecurityContextNotSupported" and 'container "main"' in message


@pytest.mark.attack("host access", "sets the machine's kernel by sysctls", "SysctlForbidden")
@pytest.mark.parametrize(
    "name", ["kernel.core_pattern", "vm.overcommit_memory", "net.core.somaxconn"]
)
def test_no_unsafe_sysctls(attacker: Attacker, name: str) -> None:
    context = {"sysctls": [{"name": name, "value": "1"}]}
    reason, message, _ = attacker.refused(securityContext=context)
    assert reason == "SysctlForbidden" and name in message


@pytest.mark.attack("host access", "takes another job's checkpoint folder as hostPath", "refused")
def test_no_checkpoints_of_others(attacker: Attacker) -> None:
    path = str(attacker.node.folder / "data" / "checkpoints" / "other" / "job" / "uid")
    reason, _, _ = attacker.refused(volumes=[{"name": "c", "hostPath": {"path": path}}])
    assert reason == "HostAccessForbidden"
