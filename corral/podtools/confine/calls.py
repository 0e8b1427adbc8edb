"""The system calls that confined code may make, by name, with their numbers on each machine.

Everything that is not here is refused: what opens sockets, makes processes, changes owners, modes
or times of files, reaches other processes, or configures the machine. A dash: there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CHECKED", "MODULES", "PLAIN", "numbers"]

# name, number on x86_64, number on aarch64
_FILES = """
read 0 63, write 1 64, open 2 -, openat 257 56, close 3 57, creat 85 -, lseek 8 62,
pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69, pwritev 296 70,
preadv2 327 286, pwritev2 328 287, stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79,
statx 332 291, statfs 137 43, fstatfs 138 44, access 21 -, faccessat 269 48, faccessat2 439 439,
readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49,
fchdir 81 50, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -,
renameat 264 38, renameat2 316 276, truncate 76 45, ftruncate 77 46, fallocate 285 47,
fadvise64 221 223, readahead 187 213, fsync 74 82, fdatasync 75 83, sync_file_range 277 84,
copy_file_range 326 285, sendfile 40 71, umask 95 166, dup 32 23, dup2 33 -, dup3 292 24,
close_range 436 436
"""
_MEMORY = """
brk 12 214, munmap 11 215, mprotect 10 226, mremap 25 216, msync 26 227, mincore 27 232,
madvise 28 233, membarrier 324 283
"""
_THREADS = """
futex 202 98, futex_waitv 449 449, set_robust_list 273 99, set_tid_address 218 96, rseq 334 293,
sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
sched_get_priority_max 146 125, sched_get_priority_min 147 126, sched_rr_get_interval 148 127,
getcpu 309 168, gettid 186 178, exit 60 93, exit_group 231 94, restart_syscall 219 128,
wait4 61 260, waitid 247 95
"""
_SIGNALS = """
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 -
"""
_TIME = """
time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114,
clock_nanosleep 230 115, nanosleep 35 101, getitimer 36 102, setitimer 38 103, alarm 37 -,
times 100 153, timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87
"""
_WAITING = """
poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -, epoll_create1 291 20,
epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd 284 -,
eventfd2 290 19, pipe 22 -, pipe2 293 59
"""
_ITSELF = """
getpid 39 172, getppid 110 173, getpgrp 111 -, getpgid 121 155, getsid 124 156, getuid 102 174,
geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148,
getresgid 120 150, getrlimit 97 163, getrusage 98 165, getpriority 140 141, capget 125 90,
uname 63 160, sysinfo 99 179, getrandom 318 278
"""
_PAIRS = """
recvfrom 45 207, shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209
"""
_CHECKED = """
arch_prctl 158 -, clone 56 220, clone3 435 435, memfd_create 319 279, flock 73 32, fcntl 72 25,
ioctl 16 29, kill 62 129, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
mmap 9 222, prctl 157 167, prlimit64 302 261, sched_setaffinity 203 122, sendto 44 206,
socketpair 53 199, utimensat 280 88
"""
_MODULES = """
openat2 437 437, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36
"""


def _table(*texts: str) -> dict[str, tuple[int, int]]:
    rows = (row.split() for text in texts for row in text.split(","))
    return {name: (int(one), -1 if other == "-" else int(other)) for name, one, other in rows}


PLAIN: Final[Mapping[str, tuple[int, int]]] = _table(
    _FILES, _MEMORY, _THREADS, _SIGNALS, _TIME, _WAITING, _ITSELF, _PAIRS
)
"""Allowed whatever their arguments are."""
CHECKED: Final[Mapping[str, tuple[int, int]]] = _table(_CHECKED)
"""Allowed with some arguments: `filters` says which."""
MODULES: Final[Mapping[str, tuple[int, int]]] = _table(_MODULES)
"""What the host of WebAssembly modules needs beside, for the volumes of a module."""


def numbers(table: Mapping[str, tuple[int, int]], column: int) -> list[int]:
    """Those of one machine, without the calls that it does not have."""
    return [row[column] for row in table.values() if row[column] >= 0]
