"""The system calls of ordinary containers, as a seccomp filter: the profile ``RuntimeDefault``.

As the container runtimes' own default profiles: what administers the machine, loads code into the
kernel, makes namespaces or mounts, or is known for its holes is refused with EPERM unless the
container was given the capability for it; calls that were not known when this was written do not
exist (ENOSYS); calls of another architecture end the process. ptrace and process_vm_readv
stay: the kernel asks itself whether one process may look into the other, and MPIs copy messages
between the ranks of a pod so.
"""

from __future__ import annotations

import errno
import os
import struct
from functools import cache
from typing import Final

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LAST_KNOWN: Final = 462
"""mseal; numbers are the same on all architectures from 424 on."""
_X32: Final = 0x40000000
_NEW_NAMESPACES: Final = 0x7E020080

# name: (x86_64, aarch64); -1: there is none
_REFUSED: Final[dict[str, tuple[int, int]]] = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "userfaultfd": (323, 282), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "create_module": (174, -1), "get_kernel_syms": (177, -1), "query_module": (178, -1),
    "nfsservctl": (180, 42), "_sysctl": (156, -1), "uselib": (134, -1), "ustat": (136, -1),
    "sysfs": (139, -1), "vserver": (236, -1), "afs_syscall": (183, -1), "tuxcall": (184, -1),
    "security": (185, -1), "getpmsg": (181, -1), "putpmsg": (182, -1),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "swapon": (167, 224),
    "swapoff": (168, 225), "modify_ldt": (154, -1),
}  # fmt: skip
_BY_CAPABILITY: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "SYS_ADMIN": {
        "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97),
        "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
        "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
        "mount_setattr": (442, 442), "quotactl": (179, 60), "quotactl_fd": (443, 443),
        "sethostname": (170, 161), "setdomainname": (171, 162), "lookup_dcookie": (212, 18),
        "fanotify_init": (300, 262), "bpf": (321, 280), "perf_event_open": (298, 241),
        "statmount": (457, 457), "listmount": (458, 458), "syslog": (103, 116),
    },
    "SYS_PTRACE": {
        "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    },
    "SYS_MODULE": {
        "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    },
    "SYS_NICE": {
        "mbind": (237, 235), "get_mempolicy": (239, 236), "set_mempolicy": (238, 237),
        "set_mempolicy_home_node": (450, 450),
    },
    "SYS_TIME": {
        "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    },
    "SYS_BOOT": {"reboot": (169, 142)},
    "SYS_PACCT": {"acct": (163, 89)},
    "SYS_RAWIO": {"iopl": (172, -1), "ioperm": (173, -1)},
    "SYS_TTY_CONFIG": {"vhangup": (153, 58)},
    "DAC_READ_SEARCH": {"open_by_handle_at": (304, 265)},
}  # fmt: skip
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_SOCKET: Final = (41, 198)
_NO_FAMILIES: Final = (38, 40)
"""AF_ALG and AF_VSOCK: of the kernel's own and of the machine's host."""
_PERSONALITY: Final = (135, 92)
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

_LOAD, _EQUAL, _GREATER_EQUAL, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000


def _fail(number: int) -> int:
    return 0x00050000 | number


def _do(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


@cache
def program(capabilities: frozenset[str], machine: str = os.uname().machine) -> bytes:
    """The filter for containers with these capabilities. Raises OSError."""
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no filter of system calls is known for {machine}")
    column = list(_ARCHITECTURES).index(machine)
    refused = dict(_REFUSED)
    for capability, calls in _BY_CAPABILITY.items():
        if capability not in capabilities:
            refused |= calls
    out = [
        _do(_LOAD, _ARCHITECTURE),
        _do(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _do(_RETURN, _KILL),
        _do(_LOAD, _NUMBER),
        _do(_GREATER_EQUAL, _LAST_KNOWN + 1, 0, 1),
        _do(_RETURN, _fail(errno.ENOSYS)),
    ]
    for call in refused.values():
        if call[column] >= 0:
            out += [_do(_EQUAL, call[column], 0, 1), _do(_RETURN, _fail(errno.EPERM))]
    if "SYS_ADMIN" not in capabilities:
        out += _no_namespaces(column)
    out += _no_sockets(column)
    out += _usual_personalities(column)
    out.append(_do(_RETURN, _ALLOW))
    return b"".join(out)


def _no_namespaces(column: int) -> list[bytes]:
    return [
        # as on an old kernel: the C library then uses clone, whose flags can be seen
        _do(_EQUAL, _CLONE3, 0, 1),
        _do(_RETURN, _fail(errno.ENOSYS)),
        _do(_EQUAL, _CLONE[column], 0, 4),
        _do(_LOAD, _FIRST),
        _do(_BITS, _NEW_NAMESPACES, 0, 1),
        _do(_RETURN, _fail(errno.EPERM)),
        _do(_RETURN, _ALLOW),
    ]


def _no_sockets(column: int) -> list[bytes]:
    out = [_do(_EQUAL, _SOCKET[column], 0, 2 * len(_NO_FAMILIES) + 2), _do(_LOAD, _FIRST)]
    for family in _NO_FAMILIES:
        out += [_do(_EQUAL, family, 0, 1), _do(_RETURN, _fail(errno.EAFNOSUPPORT))]
    return [*out, _do(_RETURN, _ALLOW)]


def _usual_personalities(column: int) -> list[bytes]:
    out = [_do(_EQUAL, _PERSONALITY[column], 0, 2 * len(_PERSONALITIES) + 2), _do(_LOAD, _FIRST)]
    for value in _PERSONALITIES:
        out += [_do(_EQUAL, value, 0, 1), _do(_RETURN, _ALLOW)]
    return [*out, _do(_RETURN, _fail(errno.EPERM))]
