"""The uploader of a task: ``python -m corral.podtools.uploader fetch|deliver``.

``fetch`` runs before the task and puts the global model at ``/fl/model``. ``deliver`` runs beside
the task, until it is told that the task has ended (by SIGTERM): it prints what the task has made of
its ``progress.json``, and at the end sends the update away. ``result.json`` says that an update is
whole: without it nothing is delivered. What is found in the folder may be hostile: no link in it is
followed, and whatever is read has a limit.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corral.podtools import termination
from corral.podtools.registries import print_line, registries_of, retried
from corral.podtools.uploader.envelopes import MESSAGE_LIMIT, Unfit, envelope_of, inlined, referring

if TYPE_CHECKING:
    from corral.oci import Registries

__all__ = ["Uploader", "main"]

POLL: Final = 0.1
"""Seconds between two looks at whether the task has ended."""
REPORT: Final = 10
"""Such looks between two at what the task has made so far."""
MAX_TEXT: Final = 1 << 20
MAX_PROGRESS: Final = 200 << 10
UPDATE_TYPE: Final = "application/vnd.corral.update.v1"


class Uploader:
    """One errand; ``env`` says what, and where from or to."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._env = env
        self._say = say
        self._clock = clock
        self._folder = Path(env.get("FL_DIR") or "/fl")

    # --- before the task -------------------------------------------------------------------------

    def fetch(self) -> None:
        """Have the model at hand.

        A job's initial model need not be there: many begin with none. The model of a round before
        must.

        Raises:
            RegistryError: it cannot be had.
            ValueError: what came with the task is no base64.
        """
        inline = self._env.get("FL_GLOBAL_UPDATE_B64") or ""
        reference = self._env.get("FL_GLOBAL_UPDATE_REF") or ""
        if inline:
            self._put(base64.b64decode(inline, validate=True))
        elif reference:
            asyncio.run(retried(lambda: self._pull(reference), log=self._say, clock=self._clock))
        elif (self._env.get("MODEL_URI") or "").startswith("oci://"):
            self._fetch_initial(self._env["MODEL_URI"])

    def _fetch_initial(self, reference: str) -> None:
        from corral.oci import RegistryError

        try:
            asyncio.run(self._pull(reference, tries=2))
        except RegistryError as error:
            self._say(f"there is no initial model for the task: {error}")

    def _put(self, content: bytes) -> None:
        descriptor, name = tempfile.mkstemp(dir=self._folder)
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, 0o644)
        os.replace(name, self._folder / "model")

    async def _pull(self, text: str, *, tries: int = 5) -> None:
        from corral.oci import Artifacts, ClientSettings, Reference

        reference = Reference.parse(text)
        settings = ClientSettings(tries=tries, connect_timeout=10.0)
        async with Artifacts(self._registries(), settings=settings) as artifacts:
            manifest = await artifacts.manifest(reference)
            if not manifest.layers:
                self._say(f"{text} has no layer: the task gets no model")
                return
            await artifacts.fetch(reference, manifest.layers[0], self._folder / "model")

    # --- beside the task -------------------------------------------------------------------------

    def deliver(self, stop: threading.Event) -> str:
        """Report progress until the task has ended, then deliver; what is to be said about it.

        The end is told by ``stop``, or by a file that a shell makes which is told instead of us.
        """
        ended = Path(self._env.get("CORRAL_ENDED") or "/nowhere")
        last: tuple[int, int] | None = None
        looks = 0
        while not ended.exists() and not stop.wait(POLL):
            if looks % REPORT == 0:
                last = self._report(last)
            looks += 1
        self._report(last)
        return self.last_words()

    def _report(self, last: tuple[int, int] | None) -> tuple[int, int] | None:
        """Print what the task has given so far, where that is new."""
        path = self._folder / "progress.json"
        try:
            info = path.lstat()
        except OSError:
            return last
        stamp = (info.st_mtime_ns, info.st_size)
        if stamp == last:
            return last
        try:
            progress = json.loads(_read(path, MAX_PROGRESS))
        except (OSError, ValueError, Unfit):
            return last  # in the middle of being written, or nothing that we take
        if isinstance(progress, dict):
            self._say(json.dumps({"progress": progress}, separators=(",", ":")))
        return stamp

    def last_words(self) -> str:
        """Deliver what the task has left; the termination message."""
        from corral.oci import RegistryError

        try:
            return self._delivered()
        except FileNotFoundError:
            return ""  # it failed, or tells its result by itself
        except (OSError, ValueError, Unfit, RegistryError) as error:
            self._say(f"nothing was delivered: {error}")
            return json.dumps({"courier_error": str(error)[:2048]})

    def _delivered(self) -> str:
        result = json.loads(_read(self._folder / "result.json", MAX_TEXT))
        if not isinstance(result, dict):
            raise Unfit("result.json is no JSON object")
        envelope = envelope_of(result, self._env)
        update = self._update(envelope)
        size = len(update) if isinstance(update, bytes) else update.stat().st_size
        # what is kept for good is in the registry, however small it is
        if size <= MESSAGE_LIMIT and self._env.get("FL_INLINE") != "never":
            try:
                content = update if isinstance(update, bytes) else _read(update, MESSAGE_LIMIT)
                return inlined(result, envelope, content)
            except Unfit:
                if not size:
                    raise
        pushed, digest = asyncio.run(self._push(update, str(envelope.get("format") or "")))
        self._say(f"the update of {size} bytes is {pushed}")
        return referring(result, envelope, reference=pushed, size=size, digest=digest)

    def _update(self, envelope: Mapping[str, Any]) -> Path | bytes:
        """The payload: the task's file, or what its envelope holds."""
        path = self._folder / "update"
        try:
            info = path.lstat()
        except FileNotFoundError:
            info = None
        if info is not None:
            if not stat.S_ISREG(info.st_mode):
                raise Unfit("update is no ordinary file")
            return path
        text = envelope.get("update_b64")
        if not isinstance(text, str):
            return b""
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise Unfit(f"update_b64 of result.json is no base64: {error}") from error

    async def _push(self, update: Path | bytes, format: str) -> tuple[str, str]:
        from corral.oci import Artifacts, Layer, Reference

        target = self._env.get("FL_UPDATE_REF") or ""
        if not target:
            raise Unfit(
                "the update is too large for a message and the operator has no registry: give it "
                "one (--registry)"
            )
        kind = f"{UPDATE_TYPE}+{format or 'bytes'}"
        notes = {
            f"dev.corral.{key.lower().replace('_', '-')}": self._env[key]
            for key in ("PROPLET_ID", "ROUND_ID", "FL_JOB_ID", "TASK_ID")
            if self._env.get(key)
        }

        async def push() -> tuple[str, str]:
            async with Artifacts(self._registries()) as artifacts:
                pushed = await artifacts.push(
                    Reference.parse(target),
                    [Layer(kind, update)],
                    artifact_type=UPDATE_TYPE,
                    annotations=notes,
                )
                return str(pushed.reference), pushed.digest

        return await retried(push, log=self._say, clock=self._clock)

    def _registries(self) -> Registries:
        from corral.oci import Credentials, docker_config

        logins = Credentials()
        folder = Path(self._env.get("CORRAL_REGISTRY_LOGINS") or "/nowhere")
        for secret in sorted(folder.glob("*.json")):
            logins = logins | docker_config({".dockerconfigjson": secret.read_bytes()})
        return registries_of(self._env, logins)


def _read(path: Path, limit: int) -> bytes:
    """An ordinary file of at most so many bytes; neither a link nor anything else is followed.

    Raises:
        Unfit: it is larger, or no ordinary file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise Unfit(f"{path.name} is no ordinary file")
        if info.st_size > limit:
            raise Unfit(f"{path.name} has {info.st_size} bytes, at most {limit} are taken")
        return file.read(limit)


def main(argv: list[str] | None = None) -> int:
    """Run one errand; the exit code."""
    words = sys.argv[1:] if argv is None else argv
    uploader = Uploader(os.environ, say=print_line)
    if words == ["fetch"]:
        try:
            uploader.fetch()
        except Exception as error:
            print_line(f"the global model cannot be fetched: {error}")
            return 1
        return 0
    if words == ["deliver"]:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        message = uploader.deliver(stop)
        if message:
            termination.write_message(message)
        return 0
    print_line("usage: python -m corral.podtools.uploader fetch|deliver")
    return 2
