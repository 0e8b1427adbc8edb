"""Keeps the hosts files of a node's pods up to date.

A change reaches the files at once when nothing else is going on. Changes that come while files are
being written are gathered and written together; the more a round took, the longer the next one
waits, so that a thousand pods that become ready cost a bounded share of the machine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from corral.cluster.node.network.names.hosts import Edit, HostsFile, NamesBlock
from corral.cluster.node.network.services.directory import Record

logger = logging.getLogger(__name__)

_FEW: Final = 32
"""Files that are written on the spot; more go to a thread."""
_REST: Final = 4.0
"""A round is followed by this many times its duration in which nothing is written."""
_Scope: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A namespace, the domains that its pods leave out of names, and the names that they have."""


class NamesWriter:
    """The hosts files of one agent. Nothing is changed in them before ``begin``."""

    def __init__(
        self,
        records: Callable[[], frozenset[Record]],
        *,
        domain: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``records`` gives everything that is known."""
        self._records = records
        self._domain = domain
        self._clock = clock
        self._blocks: dict[_Scope, NamesBlock] = {}
        self._files: dict[_Scope, dict[str, HostsFile]] = {}
        self._gone: set[Record] = set()
        self._new: set[Record] = set()
        self._wake = asyncio.Event()
        self._begun = False

    def begin(self) -> None:
        """All names are known: from now on files say what the records do."""
        if self._begun:
            return
        self._begun = True
        self._blocks.clear()
        for scope, files in self._files.items():
            block = self._block(scope)
            for file in files.values():
                file.write(block)
        self._gone.clear()
        self._new.clear()

    def add(self, namespace: str, uid: str, file: HostsFile) -> None:
        """Write a pod's file with the names of this moment, and keep it up to date."""
        scope = (namespace, file.searches, file.named)
        self._files.setdefault(scope, {})[uid] = file
        file.write(self._block(scope))

    def adopt(self, namespace: str, uid: str, file: HostsFile) -> None:
        """Keep a file up to date that an earlier agent wrote."""
        scope = (namespace, file.searches, file.named)
        self._files.setdefault(scope, {})[uid] = file
        if self._begun:
            file.write(self._block(scope))

    def remove(self, namespace: str, uid: str) -> None:
        for scope in [scope for scope in self._files if scope[0] == namespace]:
            files = self._files[scope]
            files.pop(uid, None)
            if not files:
                self._files.pop(scope, None)
                self._blocks.pop(scope, None)

    def change(self, gone: frozenset[Record], new: frozenset[Record]) -> None:
        """Records went and came; returns at once."""
        if not self._begun:
            return
        self._new -= gone
        self._gone |= gone
        self._gone -= new
        self._new |= new
        self._wake.set()

    async def run(self) -> None:
        """Write changes until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            started = self._clock()
            await self._round()
            took = self._clock() - started
            if took > 0.002:
                await asyncio.sleep(took * _REST)

    async def _round(self) -> None:
        gone, new = self._gone, self._new
        self._gone, self._new = set(), set()
        work: list[tuple[HostsFile, Sequence[Edit]]] = []
        for scope, block in self._blocks.items():
            edits = block.change(gone, new)
            if edits:
                work += [(file, edits) for file in self._files.get(scope, {}).values()]
        if len(work) <= _FEW:
            _write(work)
        else:
            await asyncio.to_thread(_write, work)

    def _block(self, scope: _Scope) -> NamesBlock:
        block = self._blocks.get(scope)
        if block is None:
            namespace, searches, named = scope
            records = self._current()
            block = NamesBlock(namespace, self._domain, records, searches=searches, named=named)
            self._blocks[scope] = block
        return block

    def _current(self) -> set[Record]:
        """What the other blocks hold: the newest, less what is still to be written."""
        return (set(self._records()) - self._new) | self._gone


def _write(work: Sequence[tuple[HostsFile, Sequence[Edit]]]) -> None:
    for file, edits in work:
        try:
            file.edit(edits)
        except FileNotFoundError:
            continue  # the pod was removed meanwhile
        except OSError as err:
            logger.error("the hosts file of a pod could not be written: %s", err)
