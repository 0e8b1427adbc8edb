"""The system calls that confined code may not make, as a seccomp filter.

Written by hand because there is no well-kept package for it without a C library of its own: a
filter is a list of 8-byte instructions. A call that is refused fails with EPERM, as if the user had
no right to; calls of another architecture end the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import Final

from corral.inpod.confine.errors import ConfineError, Refused

__all__ = ["program", "refuse_calls"]

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000

_CALLS: Final[dict[str, tuple[int, int]]] = {
    # name: (x86_64, aarch64); -1: there is none
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setrlimit": (160, 164),
    "fork": (57, -1),
    "vfork": (58, -1),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "syslog": (103, 116),
    "fanotify_init": (300, 262),
    "memfd_secret": (447, 447),
}
_OWN_ONLY: Final[dict[str, tuple[int, int]]] = {
    # the first argument is the process they are about
    "kill": (62, 129),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
_TKILL: Final = (200, 130)
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME."""
_THREAD: Final = 0x00010000
_PRLIMIT: Final = (302, 261)

# instructions: load a word of the call, jump where equal / greater / bits are set, return
_LOAD, _EQUAL, _GREATER, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _THIRD = 0, 4, 16, 32
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000


def _fail(number: int) -> int:
    return 0x00050000 | number


def _do(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


def program(machine: str, pid: int) -> bytes:
    """The filter for a process. Raises ConfineError where the machine is not known."""
    if machine not in _ARCHITECTURES:
        raise ConfineError(
            f"code cannot be kept in on {machine}: only {', '.join(_ARCHITECTURES)} are known"
        )
    column = list(_ARCHITECTURES).index(machine)
    out = [
        _do(_LOAD, _ARCHITECTURE),
        _do(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _do(_RETURN, _KILL),
        _do(_LOAD, _NUMBER),
        _do(_GREATER, _X32, 0, 1),
        _do(_RETURN, _KILL),
    ]
    refused = [calls[column] for calls in (*_CALLS.values(), _TKILL) if calls[column] >= 0]
    for number in refused:
        out += [_do(_EQUAL, number, 0, 1), _do(_RETURN, _fail(errno.EPERM))]
    # as on an old kernel: the C library then uses clone, whose flags can be seen
    out += [_do(_EQUAL, _CLONE3, 0, 1), _do(_RETURN, _fail(errno.ENOSYS))]
    out += [
        # threads, but no processes
        _do(_EQUAL, _CLONE[column], 0, 5),
        _do(_LOAD, _FIRST),
        _do(_BITS, _NEW_NAMESPACES, 1, 0),
        _do(_BITS, _THREAD, 1, 0),
        _do(_RETURN, _fail(errno.EPERM)),
        _do(_RETURN, _ALLOW),
        # limits may be asked for, not set
        _do(_EQUAL, _PRLIMIT[column], 0, 6),
        _do(_LOAD, _THIRD),
        _do(_EQUAL, 0, 0, 3),
        _do(_LOAD, _THIRD + 4),
        _do(_EQUAL, 0, 0, 1),
        _do(_RETURN, _ALLOW),
        _do(_RETURN, _fail(errno.EPERM)),
    ]
    for calls in _OWN_ONLY.values():
        out += [
            _do(_EQUAL, calls[column], 0, 4),
            _do(_LOAD, _FIRST),
            _do(_EQUAL, pid, 1, 0),
            _do(_RETURN, _fail(errno.EPERM)),
            _do(_RETURN, _ALLOW),
        ]
    out.append(_do(_RETURN, _ALLOW))
    return b"".join(out)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_calls() -> None:
    """Have the kernel refuse them to this process and its children from now on, for ever.

    Raises ConfineError, Refused.
    """
    code = program(platform.machine(), os.getpid())
    library = ctypes.CDLL(None, use_errno=True)
    filter_ = _Program(len(code) // 8, ctypes.c_char_p(code))
    set_filter, mode = 22, 2
    if library.prctl(set_filter, mode, ctypes.byref(filter_), 0, 0):
        reason = os.strerror(ctypes.get_errno())
        raise Refused(f"the kernel takes no filter of system calls: {reason}")
