"""Hosts files: the names that a pod can resolve.

A container has its hosts file mounted, so the file itself must stay and only its content change,
while programs read it. Therefore no line ever moves: a name that goes is blanked out in place, a
new one fills a gap of its length or is appended. All pods of a namespace that search the same
domains, and name the same services of others (``visible``), see the same names after their own, so
each change is worked out once (``NamesBlock``) and written into every file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from corral.cluster.node.network.names.visible import is_visible
from corral.cluster.node.network.services.directory import Record
from corral.kube.types import Obj

_SMALL: Final = 1 << 13
"""Bytes up to which gaps are not worth a new beginning."""


def header(
    address: str, hostname: str, *, domain: str = "", aliases: Iterable[Obj] = (), base: str = ""
) -> str:
    """The part that is a pod's own; ``base`` is the machine's file where the pod shares that."""
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
    ]
    if base:
        lines = ["# Kubernetes-managed hosts file (host network).", base.rstrip("\n")]
    own = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    lines.append(f"{address}\t{own}")
    extra = [f"{entry['ip']}\t" + "\t".join(entry.get("hostnames") or ()) for entry in aliases]
    if extra:
        lines += ["", "# Entries added by HostAliases.", *extra]
    return "\n".join(lines) + "\n"


def line_of(record: Record, *, namespace: str, domain: str, searches: Sequence[str] = ()) -> bytes:
    """The line by which pods of ``namespace`` find a record; short names only in its own.

    ``searches`` are domains that may be left out of names, as ``dnsConfig`` has them: a resolver
    would try them, but it does not with names of a hosts file.
    """
    full = f"{record.name}.{record.namespace}"
    names = [f"{full}.svc.{domain}", f"{full}.svc", full]
    if namespace == record.namespace:
        names.append(record.name)
    short = [names[0].removesuffix(f".{search}") for search in searches]
    names += [name for name in dict.fromkeys(short) if name not in names]
    return f"{record.address}\t{' '.join(names)}\n".encode()


class Edit(NamedTuple):
    """Bytes to write at a place of the block; ``size`` is the block's afterwards."""

    place: int
    data: bytes
    size: int


class NamesBlock:
    """What all pods of one namespace see that search the same domains and name the same."""

    def __init__(
        self,
        namespace: str,
        domain: str,
        records: Iterable[Record],
        *,
        searches: Sequence[str] = (),
        named: Sequence[str] = (),
    ) -> None:
        self._namespace = namespace
        self._named = frozenset(named)
        self._domain = domain
        self._searches = searches
        self._lines: dict[bytes, int] = {}
        self._gaps: dict[int, list[int]] = {}
        self._wasted = 0
        self.content = bytearray()
        self.change(frozenset(), frozenset(records))

    def change(self, gone: Iterable[Record], new: Iterable[Record]) -> list[Edit]:
        """Take records out and in; what has to be written for it."""
        edits: dict[int, bytes] = {}
        for record in sorted(filter(self._is_visible, gone)):
            line = self._line(record)
            place = self._lines.pop(line, None)
            if place is not None:
                self._gaps.setdefault(len(line), []).append(place)
                self._wasted += len(line)
                edits[place] = b"#" + b" " * (len(line) - 2) + b"\n"
        grown = len(self.content)
        for record in sorted(filter(self._is_visible, new)):
            line = self._line(record)
            if line not in self._lines:
                place = self._place(line, edits)
                self._lines[line] = place
        for place, data in edits.items():
            self.content[place : place + len(data)] = data
        if self._wasted > _SMALL and self._wasted * 2 > len(self.content):
            return self._begin_anew()
        size = len(self.content)
        changes = [Edit(place, data, size) for place, data in sorted(edits.items())]
        if size > grown:
            changes.append(Edit(grown, bytes(self.content[grown:]), size))
        return changes

    def _place(self, line: bytes, edits: dict[int, bytes]) -> int:
        gaps = self._gaps.get(len(line))
        if gaps:
            place = gaps.pop()
            self._wasted -= len(line)
            edits[place] = line
            return place
        self.content += line
        return len(self.content) - len(line)

    def _begin_anew(self) -> list[Edit]:
        self.content = bytearray()
        self._gaps.clear()
        self._wasted = 0
        for line in self._lines:
            self._lines[line] = len(self.content)
            self.content += line
        return [Edit(0, bytes(self.content), len(self.content))]

    def _is_visible(self, record: Record) -> bool:
        return is_visible(record, namespace=self._namespace, named=self._named)

    def _line(self, record: Record) -> bytes:
        return line_of(
            record, namespace=self._namespace, domain=self._domain, searches=self._searches
        )


class HostsFile:
    """The hosts file of one pod."""

    def __init__(
        self, path: Path, own: str, *, searches: Sequence[str] = (), named: Sequence[str] = ()
    ) -> None:
        self._path = path
        self._own = own.encode()
        self.searches = tuple(searches)
        """Domains of the cluster that the pod leaves out of names."""
        self.named = tuple(named)
        """Services of other namespaces that it names itself."""

    def write(self, block: NamesBlock) -> None:
        """Make it whole, from the beginning; a file that is right is not touched."""
        content = self._own + block.content
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(fd, 0o644)  # containers of any user read it, whatever the agent's umask
            if os.fstat(fd).st_size == len(content) and os.pread(fd, len(content), 0) == content:
                return
            os.pwrite(fd, content, 0)
            # after, not before: whoever reads meanwhile must not find nothing
            os.ftruncate(fd, len(content))
        finally:
            os.close(fd)

    def edit(self, edits: Iterable[Edit]) -> None:
        """Write the changes of the block."""
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        start = len(self._own)
        try:
            for place, data, size in edits:
                os.pwrite(fd, data, start + place)
                if os.fstat(fd).st_size > start + size:
                    os.ftruncate(fd, start + size)
        finally:
            os.close(fd)
