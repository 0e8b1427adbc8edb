"""A hostile model: what it tries in a confined process, one attempt for each request.

It runs in the sandbox, through `corral.podtools.confine`. An attempt answers how it went: `done`,
or `refused` with the reason. An error that only a
call gives which the kernel took up counts as done.
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import socket
import struct
import sys
import threading
import time

from corral.podtools.confine import Channel

REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOENT, errno.EROFS, errno.EXDEV}
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
COLUMN = 1 if platform.machine() == "x86_64" else 2
NUMBERS = {
    row.split()[0]: int(row.split()[COLUMN])
    for row in """
    name_to_handle_at 303 264, open_by_handle_at 304 265, sendmsg 46 211, execveat 322 281,
    clone 56 220, clone3 435 435, unshare 272 97, setns 308 268, tkill 200 130, tgkill 234 131,
    prlimit64 302 261, ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271,
    pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424, ioprio_set 251 30,
    migrate_pages 256 238, move_pages 279 239, kcmp 312 272, io_uring_setup 425 425, bpf 321 280,
    perf_event_open 298 241, userfaultfd 323 282, keyctl 250 219, add_key 248 217,
    request_key 249 218, mount 165 40, umount2 166 39, fsopen 430 430, open_tree 428 428,
    pivot_root 155 41, chroot 161 51, personality 135 92, kexec_load 246 104, init_module 175 105,
    finit_module 313 273, reboot 169 142, syslog 103 116, swapon 167 224, quotactl 179 60,
    acct 163 89, sethostname 170 161, settimeofday 164 170, clock_settime 227 112, seccomp 317 277,
    inotify_init1 294 26, fanotify_init 300 262, shmget 29 194, mq_open 240 180, semget 64 190,
    msgget 68 186, memfd_create 319 279, memfd_secret 447 447, mlock 149 228,
    get_robust_list 274 100, vmsplice 278 75, io_setup 206 0, capset 126 91, setresuid 117 147
    """.replace("\n", " ").split(",")
}


def serve(words: list[str]) -> int:
    channel = Channel()
    channel.ready()
    for request in channel.requests():
        name, *arguments = json.loads(request)
        channel.answer(json.dumps(attempt(name, arguments)).encode())
    return 0


def attempt(name: str, arguments: list[str]) -> str:
    try:
        found = ATTEMPTS[name](*arguments)
    except OSError as err:
        if err.errno in REFUSALS:
            return f"refused: {err}"
        return f"done: {err}"
    except MemoryError:
        return "refused: MemoryError"
    return f"done: {found}"


def once(words: list[str]) -> int:
    """One attempt in a process of its own, for those that end it."""
    print(attempt(words[0], words[1:]))
    return 0


def _checked(result: int) -> int:
    if result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(name: str, *arguments: object) -> int:
    """A system call by its name; one that finds no file was not refused."""
    try:
        return _checked(LIBC.syscall(NUMBERS[name], *arguments))
    except FileNotFoundError as err:
        raise OSError(errno.EINVAL, f"{name} was taken up: {err}") from err


def raw(name: str, *numbers: str) -> int:
    """A system call with numbers, or nothing."""
    return call(name, *(ctypes.c_long(int(number, 0)) for number in numbers))


# --- files ---------------------------------------------------------------------------------------


def hold_lock(path: str) -> None:
    import fcntl

    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def record_lock(path: str) -> None:
    import fcntl

    with open(path) as file:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def open_file_lock(path: str) -> None:
    import fcntl

    with open(path) as file:
        # F_OFD_SETLK: a lock for reading of all of it
        fcntl.fcntl(file, 37, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))


def fchmod(path: str) -> None:
    with open(path) as file:
        os.fchmod(file.fileno(), 0o777)


def lease(path: str) -> None:
    import fcntl

    with open(path) as file:
        fcntl.fcntl(file, 1024, fcntl.F_RDLCK)


def rewrite(path: str) -> None:
    with open(path, "w") as file:
        file.write("stolen")


def handle(path: str) -> None:
    buffer = ctypes.create_string_buffer(136)
    ctypes.c_uint.from_buffer(buffer).value = 128
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, path.encode(), buffer, ctypes.byref(mount), 0)
    call("open_by_handle_at", -100, buffer, 0)


def read(path: str) -> str:
    with open(path) as file:
        return file.read(200)


def seen(path: str) -> str:
    return str(os.stat(path).st_size)


# --- sockets -------------------------------------------------------------------------------------


def _name(text: str) -> str:
    return "\0" + text[1:] if text.startswith("@") else text


def datagram(name: str) -> None:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"out", _name(name))


def descriptor(name: str, path: str) -> None:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    kept = array.array("i", [os.open(path, os.O_RDONLY)])
    one.sendmsg([b"out"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, kept)], 0, _name(name))


def descriptor_in_pair() -> None:
    one, _ = socket.socketpair()
    one.sendmsg([b"out"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])


def connect_unix(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(_name(name))


def open_socket(family: str, kind: str, protocol: str = "0") -> None:
    socket.socket(int(family), int(kind), int(protocol)).close()


def connect_tcp(port: str) -> None:
    socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()


def send_in_pair() -> str:
    one, other = socket.socketpair()
    one.send(b"inside")
    return other.recv(10).decode()


# --- programs and processes ----------------------------------------------------------------------


def execute_memory() -> None:
    fd = call("memfd_create", b"program", 0)
    with open("/proc/self/exe", "rb") as file:
        os.write(fd, file.read())
    call("execveat", fd, b"", None, None, 0x1000)


def execute_written() -> None:
    path = os.path.join(os.environ["HOME"], "program")
    with open(path, "wb") as file:
        file.write(b"#!/bin/sh\n")
    os.execv(path, [path])


def execute_library() -> None:
    os.execv("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", ["ld"])


def fork() -> None:
    if not os.fork():
        os._exit(0)


def new_process(flags: str) -> None:
    if call("clone", ctypes.c_long(int(flags, 0)), None, None, None, None) == 0:
        os._exit(0)


def group_leader() -> None:
    os.setpgid(0, 0)


def parent_priority(pid: str) -> None:
    os.setpriority(os.PRIO_PROCESS, int(pid), 19)


def parent_affinity(pid: str) -> None:
    os.sched_setaffinity(int(pid), {0})


def parent_limits(pid: str) -> None:
    resource.prlimit(int(pid), resource.RLIMIT_NOFILE, (64, 64))


def parent_limits_read(pid: str) -> None:
    resource.prlimit(int(pid), resource.RLIMIT_NOFILE)


def own_limits() -> None:
    most = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.prlimit(0, resource.RLIMIT_NPROC, most)


def signal_by_descriptor(pid: str) -> None:
    import fcntl

    one, _ = socket.socketpair()
    fcntl.fcntl(one, fcntl.F_SETOWN, int(pid))


def kill(pid: str) -> None:
    os.kill(int(pid), 0)


def parent_memory(pid: str) -> None:
    buffer = ctypes.create_string_buffer(8)
    pair = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    call("process_vm_readv", int(pid), pair, 1, pair, 1, 0)


def new_identity() -> None:
    os.setresuid(0, 0, 0)


def terminal_input() -> None:
    import fcntl

    for fd in (0, 1, 2):
        fcntl.ioctl(fd, 0x5412, b"x")


def change_process(option: str, *numbers: str) -> None:
    _checked(LIBC.prctl(int(option), *(ctypes.c_long(int(number)) for number in numbers)))


# --- memory, threads, disk -----------------------------------------------------------------------


def _map(size: int, flags: int, fd: int = -1) -> int:
    protection = mmap.PROT_READ if fd >= 0 else mmap.PROT_READ | mmap.PROT_WRITE
    return _checked(LIBC.mmap(None, ctypes.c_size_t(size), protection, flags, fd, ctypes.c_long(0)))


def shared_mapping(size: str) -> None:
    found = _map(int(size), mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    ctypes.memset(found, 1, int(size))


def stack_mapping(size: str) -> None:
    found = _map(int(size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100)
    ctypes.memset(found, 1, int(size))


def huge_mapping() -> None:
    _map(2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)


def zero_mapping() -> None:
    _map(1 << 20, mmap.MAP_SHARED, os.open("/dev/zero", os.O_RDONLY))


def private_memory(size: str) -> None:
    kept = [bytearray(64 << 20) for _ in range(int(size) >> 26)]
    assert kept


def memory_file(size: str) -> None:
    fd = call("memfd_create", b"kept", 0)
    os.posix_fallocate(fd, 0, int(size))


def shared_object() -> None:
    from multiprocessing.shared_memory import SharedMemory

    SharedMemory(create=True, size=1 << 20)


def large_pipe() -> None:
    import fcntl

    fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)


def threads(count: str) -> int:
    threading.stack_size(64 << 10)
    held = threading.Event()
    started = 0
    try:
        for _ in range(int(count)):
            threading.Thread(target=held.wait, daemon=True).start()
            started += 1
        time.sleep(2)
    except RuntimeError:
        pass
    held.set()
    if started < int(count):
        raise PermissionError(errno.EPERM, f"{started} threads")
    return started


def fill(folder: str, size: str) -> int:
    folder = folder or os.environ["HOME"]
    written, data = 0, bytes(1 << 20)
    try:
        for number in range(64):
            with open(os.path.join(folder, f"file-{number}"), "wb", buffering=0) as file:
                for _ in range(64):
                    written += file.write(data)
                    if written >= int(size):
                        time.sleep(2)
                        return written
    except OSError as err:
        raise PermissionError(errno.EPERM, f"{written} bytes: {err.strerror}") from err
    return written


def holes(folder: str, count: str, size: str) -> None:
    """Files that take no room where they are, and much wherever they are copied to."""
    for number in range(int(count)):
        with open(os.path.join(folder, f"hole-{number}"), "wb") as file:
            file.truncate(int(size))


def leave(path: str, kind: str) -> None:
    """A file or a folder of this name, in place of what was there."""
    if os.path.isdir(path):
        os.rmdir(path)
    elif os.path.exists(path):
        os.unlink(path)
    if kind == "folder":
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def many_files(count: str) -> int:
    home = os.environ["HOME"]
    made = 0
    try:
        for number in range(int(count)):
            os.close(os.open(os.path.join(home, f"n{number}"), os.O_CREAT | os.O_WRONLY))
            made += 1
        time.sleep(2)
    except OSError as err:
        raise PermissionError(errno.EPERM, f"{made} files: {err.strerror}") from err
    return made


def fill_and_map(size: str) -> None:
    """Files in memory, and data, which together are more than the limit."""
    home = os.environ["HOME"]
    with open(os.path.join(home, "half"), "wb") as file:
        os.posix_fallocate(file.fileno(), 0, int(size) * 3 // 4)
    kept = [b"x" * (1 << 20) for _ in range(int(size) * 3 // 4 >> 20)]
    time.sleep(30)
    assert kept


def crash() -> None:
    ctypes.memset(0, 1, 1)


def wait() -> None:
    time.sleep(600)


# --- what it knows -------------------------------------------------------------------------------


def environment() -> str:
    return json.dumps(dict(os.environ))


def descriptors() -> str:
    found = []
    for fd in range(3, 256):
        try:
            found.append((fd, os.fstat(fd).st_mode))
        except OSError:
            continue
    return json.dumps(found)


def print_descriptors(words: list[str]) -> None:
    """For a process that is run once; how many numbers are looked at is the first word."""
    found = []
    for fd in range(3, int(words[0])):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    print(json.dumps(found))


def standard_error() -> str:
    info = os.fstat(2)
    return json.dumps([info.st_mode, info.st_dev, info.st_ino])


def identity() -> str:
    header = ctypes.create_string_buffer(b"\x22\x05\x08\x20" + bytes(4), 8)
    data = (ctypes.c_uint * 6)()
    _checked(LIBC.capget(header, data))
    return json.dumps({"uid": os.getuid(), "capabilities": list(data)})


ATTEMPTS = {
    **{name: getattr(os, name) for name in ("unlink", "listdir", "setsid")},
    "truncate_file": lambda path: os.truncate(path, 0),
    "chmod": lambda path: os.chmod(path, 0o777),
    "chown": lambda path: os.chown(path, os.getuid(), -1),
    "utime": lambda path: os.utime(path, (1, 1)),
    "setxattr": lambda path: os.setxattr(path, "user.mark", b"x"),
    "removexattr": lambda path: os.removexattr(path, "user.kept"),
    "symlink": lambda folder: os.symlink("/etc/passwd", os.path.join(folder, "link")),
    "link": lambda path, folder: os.link(path, os.path.join(folder, "hard")),
    "fifo": lambda folder: os.mkfifo(os.path.join(folder, "fifo")),
    "rename": lambda path, folder: os.rename(path, os.path.join(folder, "moved")),
    **{
        name: value
        for name, value in vars(sys.modules[__name__]).items()
        if callable(value) and getattr(value, "__module__", "") == __name__
    },
}
