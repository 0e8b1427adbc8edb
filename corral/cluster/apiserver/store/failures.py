"""Why the store refuses."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be opened or a write could not be made durable."""


class DiskFull(StoreError):
    """There is no room for a write; what is stored can be read."""


class TooLarge(StoreError):
    """The object is larger than what is stored; the text is etcd's."""

    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class Stale(Exception):
    """The object changed (or appeared, or went away) since the caller read it."""


class Compacted(Exception):
    """The asked-for revision is older than the history that is kept."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is compacted; the oldest kept is {oldest}")
        self.asked = asked
        self.oldest = oldest
