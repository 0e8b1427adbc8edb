"""Names of the cluster for Python programs in pods that have no hosts file of their own.

Python imports this module when it starts (its folder is on PYTHONPATH). As soon as the program
imports ``socket``, the functions there look into CORRAL_HOSTS_FILE first and answer CORRAL_HOSTNAME
when asked for the host's name; names that the file does not have are resolved as always. Programs
that do not import ``socket`` pay nothing. A ``sitecustomize`` of the program's own is run as well.

Standard library only, and in words that older Pythons understand.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:  # every program that starts would wait for these
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_FRESH_NS = 100_000_000
"""A file that was changed this short a time before it was read may have changed again unseen."""


class HostsTable:
    """The names of a hosts file, read again when it has changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int] = (0, 0)
        self._sure = False
        self._names: dict[str, list[str]] = {}
        self._addresses: dict[str, list[str]] = {}

    def addresses(self, name: str) -> list[str]:
        """Where a name leads; nothing for names that are not ours."""
        self._refresh()
        return self._names.get(name.rstrip(".").lower(), [])

    def names(self, address: str) -> list[str]:
        self._refresh()
        return self._addresses.get(address, [])

    def _refresh(self) -> None:
        import time

        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_size)
            if self._sure and stamp == self._stamp:
                return
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            self._names, self._addresses, self._sure = {}, {}, False
            return
        self._stamp = stamp
        self._sure = time.time_ns() - status.st_mtime_ns > _FRESH_NS
        self._parse(text)

    def _parse(self, text: str) -> None:
        self._names, self._addresses = {}, {}
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if len(words) < 2 or ":" in words[0]:
                continue
            for name in words[1:]:
                known = self._names.setdefault(name.lower(), [])
                if words[0] not in known:
                    known.append(words[0])
            self._addresses.setdefault(words[0], words[1:])
        self._names.pop("localhost", None)


def patch(socket: ModuleType, table: HostsTable, hostname: str) -> None:
    """Have the functions of the socket module know the names of a table."""
    module: Any = socket
    _patch_lookups(module, table)
    _patch_methods(module, table)
    if hostname:
        module.gethostname = lambda: hostname


def _patch_lookups(module: Any, table: HostsTable) -> None:
    whole, by_name, by_name_ex = module.getaddrinfo, module.gethostbyname, module.gethostbyname_ex
    by_address = module.gethostbyaddr

    def getaddrinfo(
        host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        found = table.addresses(_text(host)) if family in (0, module.AF_INET) else []
        if not found:
            return whole(host, port, family, type, proto, flags)
        return [
            entry
            for address in found
            for entry in whole(address, port, module.AF_INET, type, proto, flags)
        ]

    def gethostbyname(name: Any) -> Any:
        found = table.addresses(_text(name))
        return found[0] if found else by_name(name)

    def gethostbyname_ex(name: Any) -> Any:
        found = table.addresses(_text(name))
        return (_text(name), [], list(found)) if found else by_name_ex(name)

    def gethostbyaddr(address: Any) -> Any:
        found = table.addresses(_text(address)) or [_text(address)]
        names = table.names(found[0])
        return (names[0], names[1:], [found[0]]) if names else by_address(address)

    module.getaddrinfo, module.gethostbyname = getaddrinfo, gethostbyname
    module.gethostbyname_ex, module.gethostbyaddr = gethostbyname_ex, gethostbyaddr


def _patch_methods(module: Any, table: HostsTable) -> None:
    """Names that are given to a socket itself are resolved below Python: resolve them before."""

    def resolved(sock: Any, address: Any) -> Any:
        if sock.family != module.AF_INET or not isinstance(address, tuple) or not address:
            return address
        found = table.addresses(_text(address[0]))
        return (found[0], *address[1:]) if found else address

    def wrapped(name: str) -> Any:
        original = getattr(module.socket, name)

        def method(self: Any, *args: Any) -> Any:
            return original(self, *args[:-1], resolved(self, args[-1]))

        method.__name__ = name
        method.__doc__ = original.__doc__
        return method

    for name in ("connect", "connect_ex", "bind", "sendto"):
        setattr(module.socket, name, wrapped(name))


def _text(host: Any) -> str:
    if isinstance(host, (bytes, bytearray)):
        return bytes(host).decode("ascii", "replace")
    return host if isinstance(host, str) else ""


class _Finder:
    """Waits for the import of ``socket``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "socket":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                path = os.environ.get("CORRAL_HOSTS_FILE", "")
                patch(module, HostsTable(path), os.environ.get("CORRAL_HOSTNAME", ""))

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _install() -> None:
    if os.environ.get("CORRAL_HOSTS_FILE"):
        if "socket" in sys.modules:
            table = HostsTable(os.environ["CORRAL_HOSTS_FILE"])
            patch(sys.modules["socket"], table, os.environ.get("CORRAL_HOSTNAME", ""))
        else:
            sys.meta_path.insert(0, _Finder())


def _run_next() -> None:
    """Run the module that Python would have imported if this one were not here."""
    own = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != own]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    _install()
    _run_next()
