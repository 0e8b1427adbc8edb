"""A process that has everything imported and starts containers, when it is asked to.

Started by the agent with a socket as its standard input and a locked file, which it keeps open as
long as it may start something. Containers with a mount namespace of their own it stands by itself;
for any other it forks a shim, which has a session of its own and no file of the agent's. When the
agent's end closes it starts nothing more, and ends with its last container.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress

from corral.cluster.node.shim.company import Keeper, alone


def main() -> None:
    """Serve requests: one message = a folder, with the pipe on which the shim reports."""
    requests = socket.socket(fileno=os.dup(0))
    turn = int(sys.argv[2])  # locked as long as one of us has it open
    os.set_inheritable(turn, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent
    with suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write("python")  # else it is called by the number of a descriptor
    gc.disable()
    gc.freeze()
    if sys.argv[3:] == ["keep"]:
        Keeper(requests, lambda: os.close(turn)).run()
    else:
        _fork(requests, turn, nothing)


def _fork(requests: socket.socket, turn: int, nothing: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for a shim
    while True:
        message, fds, _, _ = socket.recv_fds(requests, 1 << 16, 4)
        if not message:
            return
        for fd in fds:
            os.set_inheritable(fd, False)  # else the container would hold the agent's pipe open
        if os.fork() == 0:
            requests.close()
            os.close(turn)
            os.dup2(nothing, 2)
            os.close(nothing)
            status = 1
            try:
                os.setsid()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                alone(message.decode(), fds[0])
                status = 0
            finally:
                os._exit(status)
        for fd in fds:
            os.close(fd)
