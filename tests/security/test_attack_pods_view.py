"""A pod does not see the machine it runs on, nor what others have there."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from corral.cluster.node.container import cgroups
from tests.backends import Backend
from tests.cluster.objects import eventually
from tests.cluster.pods.pods import python
from tests.security.hostile_pods import TRY, Attacker, attacker, backend, nodes, processes

__all__ = ["attacker", "backend", "nodes"]


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.attack("pods", "reads the administrator's kubeconfig", "the file is not in its view")
def test_the_kubeconfig_is_not_there(attacker: Attacker, backend: Backend) -> None:
    own = str(attacker.node.folder / "kubeconfig")
    code = f"for p in ({str(backend.kubeconfig)!r}, {own!r}): attempt(lambda: open(p).read())"
    assert attacker.tries(code) == ["ENOENT", "ENOENT"]


@pytest.mark.attack("pods", "looks for keys and databases everywhere", "there are none to find")
@pytest.mark.route("files of pods")
def test_nothing_of_ours_is_anywhere(attacker: Attacker) -> None:
    code = """
names = {"kubeconfig", "ca.key", "sa.key", "signing.key", "corral.db", "spec.json", "agent.lock"}
for place, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if place != "/" or f not in ("proc", "sys", "usr")]
    for name in names & {*files}:
        if "site-packages" not in place: print(os.path.join(place, name))
print("end")
"""
    assert attacker.tries(code) == ["end"]


@pytest.mark.attack("pods", "lists the node's data folder", "the folder is not in its view")
def test_the_data_folder_is_not_there(attacker: Attacker) -> None:
    code = f"attempt(lambda: os.listdir({str(attacker.node.folder)!r}))"
    assert attacker.tries(code) == ["ENOENT"]


@pytest.mark.attack("pods", "reads records of containers in /dev/shm", "its /dev/shm is its own")
@pytest.mark.route("files of pods")
def test_the_records_are_not_there(attacker: Attacker) -> None:
    assert attacker.tries("attempt(lambda: os.listdir('/dev/shm'))") == ["done []"]


@pytest.mark.attack("pods", "reads /etc/shadow and keys below /etc", "they are not in its view")
def test_no_passwords_and_keys(attacker: Attacker) -> None:
    code = """
for path in ("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers"):
    attempt(lambda: os.stat(path))
"""
    assert attacker.tries(code) == ["ENOENT"] * 5


@pytest.mark.attack("pods", "reads files of people in /root, /home and /tmp", "they are its own")
def test_the_homes_are_its_own(attacker: Attacker) -> None:
    name = f"corral-attack-{uuid.uuid4().hex[:8]}"
    made = [Path("/tmp", name), Path("/var/tmp", name), Path.home() / name]
    for path in made:
        path.write_text("secret")
    try:
        lines = attacker.tries(
            f"for place in ('/tmp', '/var/tmp', '/root', {str(Path.home())!r}, '/home'):\n"
            f"    print(os.path.exists(place + '/{name}'))"
        )
    finally:
        for path in made:
            path.unlink()
    assert lines == ["False"] * 5


@pytest.mark.attack("pods", "changes programs and settings of the machine", "they are read-only")
def test_the_machine_cannot_be_written(attacker: Attacker) -> None:
    code = """
for path in ("/usr/bin/python3", "/usr/local/x", "/etc/passwd", "/etc/resolv.conf", "/etc/x",
             "/etc/ld.so.cache", sys.executable, os.__file__):
    attempt(lambda: open(path, "r+" if os.path.exists(path) else "w"))
"""
    assert set(attacker.tries(code)) <= {"EROFS", "EACCES", "ETXTBSY"}


@pytest.mark.attack("pods", "talks to the machine's services in /run", "its /run is empty")
def test_no_sockets_of_the_machine(attacker: Attacker) -> None:
    code = """
import stat
found = [os.path.join(place, name) for place, _, names in os.walk("/run") for name in names]
print([path for path in found if stat.S_ISSOCK(os.lstat(path).st_mode)])
attempt(lambda: os.stat("/var/run/docker.sock"))
"""
    assert attacker.tries(code) == ["[]", "ENOENT"]


@pytest.mark.attack("pods", "opens disks and memory by their devices", "there are none in /dev")
def test_no_devices_of_the_machine(attacker: Attacker) -> None:
    lines = attacker.tries(
        "print(sorted(n for n in os.listdir('/dev') if n not in "
        "'null zero full random urandom tty pts ptmx shm fd stdin stdout stderr "
        "termination-log'.split()))"
    )
    assert lines == ["[]"]


@pytest.mark.attack("pods", "makes the device of a disk by its numbers", "that is not permitted")
def test_no_new_devices(attacker: Attacker) -> None:
    code = """
import stat
for number in ((8, 0), (254, 0), (1, 1)):
    attempt(lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(*number)))
attempt(lambda: os.mknod("/tmp/mem", stat.S_IFCHR | 0o600, os.makedev(1, 1)))
"""
    assert attacker.tries(code) == ["EPERM"] * 4


@pytest.mark.attack("pods", "leaves its root by chroot and ..", "above it is the same root")
def test_no_way_out_of_the_root(attacker: Attacker) -> None:
    code = f"""
os.mkdir("/tmp/jail")
try:
    here = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail")
    os.fchdir(here)
    for _ in range(64): os.chdir("..")
    os.chroot(".")
except PermissionError:
    pass
print(os.path.exists({str(attacker.node.folder)!r}), os.path.exists("/usr"))
"""
    assert attacker.tries(code) == ["False True"]


@pytest.mark.attack("pods", "reads the root of the process that holds its namespaces", "EACCES")
def test_the_first_process_shows_nothing(attacker: Attacker) -> None:
    code = """
for name in ("root", "environ", "mem", "maps", "fd", "cwd", "exe"):
    path = f"/proc/1/{name}"
    attempt(lambda: os.listdir(path) if name in ("root", "fd", "cwd") else open(path, "rb").read(1))
"""
    assert set(attacker.tries(code)) == {"EACCES"}


@pytest.mark.attack("pods", "reads volumes and tokens of another pod", "they are not in its view")
@pytest.mark.route("files of pods")
def test_other_pods_have_no_files_here(attacker: Attacker) -> None:
    attacker.victim()
    uid = attacker.get("victim")["metadata"]["uid"]
    code = f"""
print([p for p, f, n in os.walk("/") if {uid!r} in p and not p.startswith("/proc")])
print([p for p, f, n in os.walk("/run/secrets") if "token" in n] != [])
"""
    assert attacker.tries(code) == ["[]", "True"]


@pytest.mark.attack("pods", "has its message written over a file of the machine", "it is inside")
def test_the_message_stays_inside(attacker: Attacker) -> None:
    before = Path("/etc/hostname").read_bytes() if Path("/etc/hostname").exists() else b""
    code = "open('/etc/hostname', 'w').write('owned'); print('written')"
    container = {"terminationMessagePath": "/etc/hostname"}
    attacker.run("message", {**_python(code), **container})
    pod = attacker.phase("message", "Succeeded")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "owned"
    after = Path("/etc/hostname").read_bytes() if Path("/etc/hostname").exists() else b""
    assert after == before


@pytest.mark.attack("pods", "works in a folder of the machine", "a folder of that name is made")
def test_the_working_directory_is_inside(attacker: Attacker) -> None:
    folder = str(attacker.node.folder)
    container = {**_python("import os; print(os.getcwd(), os.listdir())"), "workingDir": folder}
    assert attacker.output("working", container) == f"{folder} []\n"


def _python(code: str) -> dict[str, object]:
    return {"name": "main", "image": "python:3.12", "command": ["python", "-c", code]}


# -- processes -------------------------------------------------------------------------------------


@pytest.mark.attack("pods", "reads the variables of another pod's processes", "it sees none")
@pytest.mark.route("processes of pods")
def test_other_processes_are_not_there(attacker: Attacker) -> None:
    attacker.victim()
    code = """
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
print(max(pids) < 100, b"SECRET" in b"".join(
    open(f"/proc/{pid}/environ", "rb").read() for pid in pids if pid != 1))
"""
    assert attacker.tries(code) == ["True False"]


@pytest.mark.attack(
    "pods", "kills another pod's process of its own uid", "there is no such process"
)
@pytest.mark.route("processes of pods")
def test_others_cannot_be_killed(attacker: Attacker) -> None:
    pid = attacker.victim()
    code = f"""
attempt(lambda: os.kill({pid}, 9))
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try: os.kill(-1, signal.SIGTERM)
except ProcessLookupError: pass
"""
    assert attacker.tries(code) == ["ESRCH"]
    assert Path(f"/proc/{pid}").exists()
    assert not attacker.get("victim")["status"]["containerStatuses"][0]["restartCount"]


@pytest.mark.attack("pods", "traces a process of the machine", "there is no such process")
@pytest.mark.route("processes of pods")
def test_others_cannot_be_traced(attacker: Attacker) -> None:
    pid = attacker.victim()
    code = f"said(libc.ptrace(16, {pid}, 0, 0)); said(libc.ptrace(16, 1, 0, 0))"
    assert attacker.tries(code) == ["ESRCH", "EPERM"]


@pytest.mark.attack(
    "pods",
    "reads the memory of a process of the machine, or of the one that starts its containers",
    "there is no such process, or the kernel refuses; its own children it may read, as ranks do",
)
@pytest.mark.route("processes of pods")
def test_the_memory_of_others(attacker: Attacker) -> None:
    code = f"""
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
theirs, mine = ctypes.create_string_buffer(b"nothing", 8), ctypes.create_string_buffer(8)
def peek(pid):
    said(libc.process_vm_readv(
        pid, ctypes.byref(Piece(ctypes.addressof(mine), 8)), 1,
        ctypes.byref(Piece(ctypes.addressof(theirs), 8)), 1, 0))
peek({attacker.victim()})
peek(1)
ready, done = os.pipe(), os.pipe()
child = os.fork()
if not child:
    theirs.value = b"written"
    os.write(ready[1], b".")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
peek(child)
os.write(done[1], b".")
os.waitpid(child, 0)
print(mine.value.decode())
"""
    assert attacker.tries(code) == ["ESRCH", "EPERM", "done", "written"]


@pytest.mark.attack("pods", "is the same user of the machine as another pod", "each has a range")
@pytest.mark.route("processes of pods")
def test_every_pod_has_its_own_users(attacker: Attacker) -> None:
    if attacker.node.isolation != "root":
        pytest.skip("an ordinary user has one id to give")
    context = {"securityContext": {"runAsUser": 1000}}
    pids = [attacker.victim(name, **context) for name in ("one", "two")]
    uids = [int(_status(pid, "Uid")[0]) for pid in pids]
    assert uids[0] != uids[1] and all(uid % 65536 == 1000 and uid > 1 << 28 for uid in uids)


@pytest.mark.attack("pods", "runs as the machine's root", "its root is an ordinary user outside")
def test_root_inside_is_nobody_outside(attacker: Attacker) -> None:
    pid = attacker.victim()
    assert "0" not in _status(pid, "Uid") + _status(pid, "Gid")
    assert os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino


@pytest.mark.attack("pods", "shares memory and queues of System V with others", "it has its own")
@pytest.mark.route("processes of pods")
def test_own_shared_memory(attacker: Attacker) -> None:
    make = "said(libc.shmget(4711, 4096, 0o1666))"
    assert attacker.tries(make) == ["done"]
    assert attacker.tries("said(libc.shmget(4711, 4096, 0o666))") == ["ENOENT"]


@pytest.mark.attack("pods", "starts processes without end", "it may have only so many")
def test_a_fork_bomb_is_bounded(attacker: Attacker) -> None:
    code = """
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            import signal
            signal.pause()
        count += 1
    print("unbounded")
except BlockingIOError:
    print("EAGAIN", count < 200)
"""
    assert attacker.tries(code) == ["EAGAIN True"]
    assert attacker.tries("print('others start')") == ["others start"]


@pytest.mark.attack("pods", "raises its own limit of processes", "that is not permitted")
def test_limits_cannot_be_raised(attacker: Attacker) -> None:
    code = """
import resource
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (1 << 20, 1 << 20))
    print("raised")
except ValueError as err:
    print("refused")
"""
    assert attacker.tries(code) == ["refused"]


@pytest.mark.attack("pods", "leaves a process behind when its pod ends", "it ends with the pod")
def test_nothing_outlives_the_pod(attacker: Attacker) -> None:
    word = f"left-behind-{uuid.uuid4().hex[:8]}"
    code = f"""
import subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvpe(sys.executable, [sys.executable, "-c", "import time; time.sleep(600) # {word}"],
                   {{}})
    os._exit(0)
os.wait()
print("gone")
"""
    assert attacker.tries(code) == ["gone"]
    eventually(lambda: not processes(word))


@pytest.mark.attack(
    "pods",
    "takes all memory of the machine by many processes or in files, so that others are ended",
    "The kernel ends it before any part of the cluster; all pods together have less than all",
)
def test_memory_without_a_limit(attacker: Attacker) -> None:
    if attacker.node.isolation != "root":
        pytest.skip("a node of an ordinary user has no control groups, and says so")
    code = """
def lower(score):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(score)
print(open("/proc/self/oom_score_adj").read().strip())
attempt(lambda: lower("-1"))
"""
    assert attacker.tries(code) == ["1000", "EACCES"]
    half = f"{cgroups.machine_memory() // 2 >> 20}Mi"
    asked = python(
        "print(500 <= int(open('/proc/self/oom_score_adj').read()) <= 501)",
        resources={"requests": {"memory": half}},
    )
    assert attacker.output("asked", asked) == "True\n"
    victim = attacker.victim()
    # the last two parts: the machine's own way to them is not seen from inside a container
    places = [line.split("/")[-2:] for line in Path(f"/proc/{victim}/cgroup").read_text().split()]
    limits = [
        cgroups.ROOT / hierarchy / node / name
        for node, _ in (place for place in places if len(place) == 2)
        for hierarchy, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max"))
    ]
    there = [int(path.read_text()) for path in limits if path.exists()]
    assert there and max(there) < cgroups.machine_memory()


@pytest.mark.attack(
    "pods",
    "fills its emptyDirs in memory and its termination message, to take the room of the records",
    "Each emptyDir has a size of its own, the message lies on disk; another pod starts and ends",
)
def test_room_in_memory_is_each_pods_own(attacker: Attacker) -> None:
    if attacker.node.isolation != "root":
        pytest.skip("an ordinary user cannot make a file system for each pod")
    code = """
def fill(path):
    with open(path, "ab", buffering=0) as file:
        for _ in range(64): file.write(bytes(1 << 20))
for path in ("/dev/termination-log", "/v/said/f"):
    attempt(lambda: fill(path))
    print(os.stat(path).st_size)
print(os.statvfs("/v/pod").f_blocks * os.statvfs("/v/pod").f_frsize)
"""
    names = ("said", "pod")
    main = python(
        TRY + code + "print('full', flush=True); import time; time.sleep(600)",
        volumeMounts=[{"name": name, "mountPath": f"/v/{name}"} for name in names],
        resources={"limits": {"memory": "64Mi"}},
    )
    size = {"medium": "Memory", "sizeLimit": "2Mi"}
    volumes = [
        {"name": "said", "emptyDir": size},
        {"name": "pod", "emptyDir": {"medium": "Memory"}},
    ]
    attacker.run("filler", {**main, "name": "main"}, volumes=volumes)
    attacker.ready("filler")
    attacker.wait("filler", lambda _: "full" in attacker.log("filler"))
    message, volume, other = (str(mib << 20) for mib in (64, 2, 64))
    expected = ["done None", message, "ENOSPC", volume, other, "full"]
    assert attacker.log("filler").splitlines() == expected
    word = "open('/v/f', 'w').write('x' * 100); open('/dev/termination-log', 'w').write('end')"
    follows = python(word, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    attacker.run("other", follows, volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    ended = attacker.phase("other", "Succeeded")["status"]["containerStatuses"][0]["state"]
    assert ended["terminated"]["message"] == "end"
    attacker.delete("filler", grace=0)
    uid = attacker.get("other")["metadata"]["uid"]
    attacker.delete("other", grace=0)
    eventually(lambda: uid not in Path("/proc/mounts").read_text())


@pytest.mark.attack(
    "pods",
    "reads of /proc what tells of the machine, and writes what changes it",
    "/proc is as container runtimes leave it (procMount Default); Unmasked shows all of it",
)
@pytest.mark.parametrize("mount", ["", "Default", "Unmasked"])
def test_proc_is_masked(attacker: Attacker, mount: str) -> None:
    code = """
for path in ("/proc/sys/kernel/core_pattern", "/proc/irq", "/proc/fs"):
    print(os.statvfs(path).f_flag & os.ST_RDONLY)
names = ("kcore", "keys", "latency_stats", "sched_debug", "timer_list", "interrupts")
there = [path for path in (f"/proc/{name}" for name in names) if os.path.exists(path)]
print([path for path in there if os.stat(path).st_rdev != os.makedev(1, 3)] != [])
print([path for path in there if os.stat(path).st_rdev == os.makedev(1, 3)] != [])
"""
    context = {"procMount": mount} if mount else {}
    lines = attacker.tries(code, context=context, hostUsers=False)
    if mount == "Unmasked":
        assert lines == ["0", "0", "0", "True", "False"]
    else:
        assert lines == ["1", "1", "1", "False", "True"]


@pytest.mark.attack("pods", "changes settings of the kernel in /proc and /sys", "it may not")
def test_no_settings_of_the_kernel(attacker: Attacker) -> None:
    code = """
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches",
             "/proc/sys/kernel/hostname", "/sys/kernel/uevent_helper"):
    attempt(lambda: open(path, "r+b"))
if os.path.exists("/proc/kcore"):  # nothing is behind it
    print(open("/proc/kcore", "rb").read(4) == b"" or "memory")
attempt(lambda: os.mkdir("/sys/fs/cgroup/escape"))
"""
    assert set(attacker.tries(code)) <= {"EACCES", "EPERM", "EROFS", "ENOENT", "True"}


def _status(pid: int, name: str) -> list[str]:
    text = Path(f"/proc/{pid}/status").read_text()
    return text.split(f"{name}:")[1].splitlines()[0].split()
