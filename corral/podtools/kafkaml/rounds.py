"""The rounds of a deployment as a log: what happened, what that means, and what is to be done next.

Nothing here talks to anybody. The server writes an entry before it acts on it; after a crash it
reads the entries again and is where it was (`Rounds.take`). So a round is neither lost nor done
twice: which updates make a version is decided by an entry, and the aggregation of the same updates
gives the same weights, bit for bit.

Entries, in the order of a life (each is plain JSON with ``type``):

    published   version, range, digest   the clients have weights to begin from
    update      version, client, range, num_data, metrics, tests, offset   counts, once for each
                                                                           version
    ignored     client, version, why, unfit, offset                 does not count
    extended    version, until                                      the round has more time
    closed      version, clients                                    these updates make the next one
    aggregated  version, digest, samples, metrics                   ... and they did
    dropped     version                                             ... and none of them was one
    asked       clients                  these are to test the last version
    tested      client, samples, metrics, matrix, offset            what one of them found
    finished    version, model_ref       |  failed  why
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "LAST",
    "Action",
    "Aggregate",
    "Ask",
    "Close",
    "Extend",
    "Fail",
    "Finish",
    "Publish",
    "RoundSettings",
    "Rounds",
    "Wait",
    "answer_version",
    "sent_version",
]

LAST: Final = -1
"""The version that clients are told in the last round: they end after it."""
Entry: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettings:
    """How the rounds of a deployment are carried out."""

    rounds: int = 15
    mode: Literal["sync", "async"] = "sync"
    k: int | None = None
    """Updates that make a round; those of all clients without it."""
    at_least: int = 1
    """Clients that must be there before the first round."""
    open: bool = False
    """Clients that nobody here has started may take part."""
    enough: int = 1
    """The fewest updates to aggregate when no more will come."""
    timeout: float = 600.0
    """Seconds that a round may take; 0 means no limit."""
    on_timeout: Literal["fail", "aggregate", "extend"] = "aggregate"
    max_extensions: int = 3
    streams: bool = False
    """Clients end where their data does: the model is what there is then."""
    max_staleness: int = 20
    """Of an update in async mode, in versions."""
    test_timeout: float = 120.0
    """Seconds for which it is waited for clients that test the last version; 0: none is asked."""


# --- what is to be done ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Send the weights of a version to the clients."""

    version: int


@dataclass(frozen=True, slots=True)
class Wait:
    """For messages, at most for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Extend:
    """Give the round as much time again."""

    version: int


@dataclass(frozen=True, slots=True)
class Close:
    """Write down that these updates make the next version."""

    version: int
    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Make the next version of them."""

    version: int
    updates: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Have these clients test the last version on data of their own."""

    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The last version is there."""

    version: int


@dataclass(frozen=True, slots=True)
class Fail:
    """Nothing more can come of it."""

    why: str


Action: TypeAlias = Publish | Wait | Extend | Close | Aggregate | Ask | Finish | Fail


# --- the state ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Rounds:
    """What the entries so far mean."""

    settings: RoundSettings
    version: int = 0
    """What the clients are to begin from."""
    published: str = ""
    """The range of that version's weights; empty while they are not sent."""
    began: float = 0.0
    started: float = 0.0
    """When the first version was sent."""
    extensions: int = 0
    updates: dict[str, Entry] = field(default_factory=dict)
    """Those that wait: of this version, by client; in async mode by ``client@version``."""
    counted: set[tuple[str, int]] = field(default_factory=set)
    unfit: set[tuple[str, int]] = field(default_factory=set)
    """Whose update of a version was none: nobody waits for another one."""
    closed: tuple[str, ...] = ()
    position: int = 0
    """The first message of the clients that has no entry."""
    history: list[Entry] = field(default_factory=list)
    """The entries of all aggregations so far."""
    newest: dict[str, Entry] = field(default_factory=dict)
    """The last update of each client, whatever became of it."""
    trained: dict[str, float] = field(default_factory=dict)
    """Seconds of training by client."""
    asked: tuple[str, ...] = ()
    """Clients that test the last version."""
    tests: dict[str, Entry] = field(default_factory=dict)
    ended: str = ""
    """Either ``finished`` or ``failed``; empty before the end."""
    why: str = ""
    model_ref: str = ""

    def take(self, entry: Entry, now: float) -> None:
        """Count an entry; ``now`` is when that is, for rounds that are on."""
        match entry.get("type"):
            case "published" if entry["version"] == self.version:
                if not self.published:
                    self.began = now
                    self.started = self.started or now
                self.published = str(entry["range"])
            case "update":
                self._take_update(entry)
                self.counted.add((entry["client"], entry["version"]))
                self._learn(entry)
                if self.settings.mode == "async":
                    # a client may be faster than we are: none of its updates is in another's place
                    self.updates[f"{entry['client']}@{entry['version']}"] = entry
                elif entry["version"] == self.version:
                    self.updates[entry["client"]] = entry
            case "ignored":
                self._take_update(entry)
                if entry.get("unfit"):
                    self.unfit.add((entry["client"], entry["version"]))
            case "extended" if entry["version"] == self.version:
                self.began = now
                self.extensions += 1
            case "closed" if entry["version"] == self.version:
                self.closed = tuple(entry["clients"])
            case "aggregated" if entry["version"] == self.version:
                clients = [self.updates[key]["client"] for key in self.closed]
                self.history.append({**entry, "clients": clients, "began": self.began})
                used = set(self.closed)
                self.updates = {c: u for c, u in self.updates.items() if c not in used}
                self.version += 1
                self.published, self.closed, self.extensions = "", (), 0
                if self.settings.mode == "sync":
                    self.updates = {}
            case "dropped" if entry["version"] == self.version:
                for update in [self.updates.pop(key) for key in self.closed]:
                    self.unfit.add((update["client"], update["version"]))
                self.closed = ()
            case "asked":
                self.asked, self.began = tuple(entry["clients"]), now
            case "tested":
                self._take_update(entry)
                self.tests.setdefault(entry["client"], entry)
            case "finished":
                self.ended = "finished"
                self.model_ref = str(entry.get("model_ref") or "")
            case "failed":
                self.ended, self.why = "failed", str(entry.get("why") or "")

    def _learn(self, entry: Entry) -> None:
        client, metrics = entry["client"], entry.get("metrics") or {}
        self.newest[client] = entry
        spent = float(metrics.get("training_seconds") or 0.0)
        self.trained[client] = self.trained.get(client, 0.0) + spent

    def _take_update(self, entry: Entry) -> None:
        self.position = max(self.position, int(entry["offset"]) + 1)

    # -- messages --------------------------------------------------------------------------------

    def refusal(self, client: str, version: int, known: Collection[str]) -> str:
        """Why an update that began from a version does not count; empty where it does."""
        if client not in known and not self.settings.open:
            return f"client {client!r} is none of this deployment's"
        if (client, version) in self.counted:
            return f"client {client!r} has given its update of version {version} already"
        if version < 0:
            return f"there was no version {version}"
        if version > self.version:
            return f"there is no version {version} yet"
        if self.settings.mode == "async":
            if self.version - version > self.settings.max_staleness:
                return f"it began from version {version}, which is too old"
            return ""
        if version < self.version:
            return f"it is late: it began from version {version}, and {self.version} is on"
        if self.closed:
            return f"it is late: the round of version {version} is closed"
        return ""

    def test_refusal(self, client: str) -> str:
        """Why what a client found does not count; empty where it does."""
        if client not in self.asked:
            return f"client {client!r} was not asked to test"
        return f"client {client!r} has tested already" if client in self.tests else ""

    # -- what next -------------------------------------------------------------------------------

    def next(self, now: float, clients: Collection[str], gone: Collection[str] = ()) -> Action:
        """What is to be done.

        Args:
            now: the same clock as for `take`.
            clients: those that take part.
            gone: those of them that will never send again.
        """
        if self.ended:
            return Wait(0.0)
        if self.closed:
            return Aggregate(self.version, tuple(self.updates[c] for c in self.closed))
        if self.version >= self.settings.rounds:
            return self._next_test(now, gone)
        if not self.published:
            alive = set(clients) - set(gone)
            if self.settings.streams and self.version and not self.settings.open:
                return Publish(self.version) if alive else self._next_test(now, gone)
            if not self.settings.open and len(alive) < self.settings.at_least:
                return self._too_few(clients, gone)
            return Publish(self.version)
        if self.settings.mode == "async":
            return self._next_async(now, clients, gone)
        return self._next_sync(now, clients, gone)

    def _next_test(self, now: float, gone: Collection[str]) -> Action:
        if not self.asked and self.settings.test_timeout:
            able = {client for client, update in self.newest.items() if update.get("tests")}
            if able - set(gone):
                return Ask(tuple(sorted(able - set(gone))))
        left = self.began + self.settings.test_timeout - now
        if left > 0 and set(self.asked) - set(self.tests) - set(gone):
            return Wait(left)
        return Finish(self.version)

    def _too_few(self, clients: Collection[str], gone: Collection[str]) -> Action:
        if len(clients) >= self.settings.at_least:
            return Fail(f"clients have ended: {', '.join(sorted(gone))}")
        return Wait(math.inf)

    def _next_sync(self, now: float, clients: Collection[str], gone: Collection[str]) -> Action:
        have = sorted(self.updates)
        everybody = max(len(clients), self.settings.at_least, 1)
        wanted = self.settings.k if self.settings.k is not None else everybody
        if len(have) >= wanted:
            return Close(self.version, tuple(have))
        lost = {client for client, version in self.unfit if version == self.version} | set(gone)
        can = set(clients) - lost | set(have)
        settled = can == set(have) or len(can) < self.settings.enough
        settled = settled or self.settings.on_timeout == "fail"
        if len(can) < wanted and settled and not self.settings.open:
            # what is missing will not come: nobody needs to wait for the end of the time
            if self.settings.streams and self.version and not can:
                return self._next_test(now, gone)
            missing = ", ".join(sorted(lost - set(have)))
            return self._without(have, f"no update that counts came from {missing}")
        left = self._left(now)
        if left > 0:
            return Wait(left)
        if self.settings.streams and not have:
            return Extend(self.version)  # data comes when it comes
        if self.settings.on_timeout == "extend" and self.extensions < self.settings.max_extensions:
            return Extend(self.version)
        if self.settings.on_timeout == "fail":
            return Fail(f"Round timed out: only {len(have)}/{wanted} updates received")
        return self._without(have, f"only {len(have)}/{wanted} updates received in time")

    def _without(self, have: Sequence[str], why: str) -> Action:
        if self.settings.on_timeout != "fail" and len(have) >= max(self.settings.enough, 1):
            return Close(self.version, tuple(have))
        return Fail(f"the round of version {self.version} cannot be completed: {why}")

    def _next_async(self, now: float, clients: Collection[str], gone: Collection[str]) -> Action:
        if self.updates:
            # the oldest first: what came is counted in the order in which it came
            first = min(self.updates, key=lambda client: self.updates[client]["offset"])
            return Close(self.version, (first,))
        if clients and set(clients) <= set(gone) and not self.settings.open:
            if self.settings.streams and self.version:
                return self._next_test(now, gone)
            return Fail(f"all clients have ended: {', '.join(sorted(gone))}")
        left = self._left(now)
        if left > 0:
            return Wait(left)
        if self.settings.streams:
            return Extend(self.version)  # data comes when it comes
        return Fail("Round timed out: no client sent an update")

    def _left(self, now: float) -> float:
        if not self.settings.timeout:
            return math.inf
        return max(self.began + self.settings.timeout - now, 0.0)


def sent_version(version: int, rounds: int) -> int:
    """What clients are told: the last one is -1."""
    return LAST if version >= rounds - 1 else version


def answer_version(announced: int, rounds: int) -> int:
    """The version that a client began from, by the ``version`` of its message."""
    return rounds - 1 if announced == LAST else announced - 1
