"""What a kept process may do; the first word says which."""

from __future__ import annotations

import os
import signal
import sys
import time

from corral.podtools.confine import Channel


def serve(words: list[str]) -> int:
    channel = Channel()
    how = words[0]
    if how == "no":
        channel.refuse("there is\nnothing to answer with")
        return 1
    if how == "dies":
        return 7
    print("what it prints is no answer")
    channel.ready()
    count = 0
    for request in channel.requests():
        count += 1
        match request.partition(b" "):
            case b"echo", _, rest:
                channel.answer(rest)
            case b"count", _, _:
                channel.answer(str(count).encode())
            case b"pid", _, _:
                channel.answer(str(os.getpid()).encode())
            case b"hang", _, _:
                time.sleep(600)
            case b"die", _, _:
                os.kill(os.getpid(), signal.SIGKILL)
            case b"worn", _, _:
                if count > 1:
                    sys.exit(3)
                channel.answer(b"fresh")
            case b"twice", _, _:
                channel.answer(b"one")
                channel.answer(b"two")
            case b"large", _, size:
                channel.answer(bytes(int(size)))
            case b"garbage", _, _:
                os.write(channel._out.fileno(), b"\xff" * 200_000)
                time.sleep(600)
            case b"write", _, path:
                with open(path, "w") as file:
                    file.write("made")
                channel.answer(b"")
            case b"read", _, path:
                try:
                    channel.answer(open(path).read().encode())
                except OSError as error:
                    channel.refuse(str(error.strerror))
            case _:
                channel.refuse("that is no request")
    return 0
