"""A process that has everything imported and forks one shim for each request.

Started by the agent with a socket as its standard input and a locked file, which it keeps open.
It ends when the agent's end closes. Its shims do not: each has a session of its own and no file of
the agent's.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from corral.cluster.node.shim import supervisor


def main() -> None:
    """Serve requests: one message = a folder, with the pipe on which the shim reports."""
    requests = socket.socket(fileno=os.dup(0))
    turn = int(sys.argv[2])  # locked as long as one of us has it open
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for a shim
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent
    gc.disable()
    gc.freeze()
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
                supervisor.supervise(message.decode(), fds[0])
                status = 0
            finally:
                os._exit(status)
        for fd in fds:
            os.close(fd)
