"""Get, list and the start of a watch: resource versions, selectors, pages."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.codec.syntax import syntax_error
from corral.cluster.apiserver.crud.core import Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.selecting import Test, field_test, label_test
from corral.cluster.apiserver.fairness.dispatch import breathe, elsewhere
from corral.cluster.apiserver.store import Compacted, Entry
from corral.kube import errors
from corral.kube.selectors import Selector, SelectorError, parse_fields, parse_labels
from corral.kube.types import Obj

is_revision = re.compile(r"[0-9]{1,20}").fullmatch
"""Whether a text looks like a resource version."""
_TOKEN_LETTERS = frozenset(string.ascii_letters + string.digits + "-_")
PIECE = 100
"""Entries that are tried before others have their turn."""
FRESH_WAIT = 3.0
"""Seconds to wait for a resource version that is not there yet."""


def no_revision(text: str) -> str:
    """Why a text is no resource version, as Go says it."""
    digits = text.isascii() and text.isdigit()
    why = "value out of range" if digits else "invalid syntax"
    return f'strconv.ParseUint: parsing "{text}": {why}'


EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list or watch, checked."""

    labels: Test | None = None
    """Whether an object's labels are wanted; None: all are."""
    fields: Test | None = None
    """The same for its selectable fields."""
    selectors: tuple[str, str] = ("", "")
    """Both as the client wrote them."""
    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    timeout: int | None = None
    initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    entries: list[Entry]
    revision: int
    token: str = ""
    remaining: int | None = None


def list_options(
    kind: Kind, query: Mapping[str, str], *, watch: bool, labels: Test | None = None
) -> ListOptions:
    """Read the query. Raises BadRequest or Invalid as Kubernetes does.

    ``labels`` is what its label selector says, where that has been read already.
    """
    if labels is None:
        found = label_selector(query.get("labelSelector", ""))
        labels = label_test(found) if found else None
    fields = _field_selector(kind, query.get("fieldSelector", ""))
    options = ListOptions(
        labels=labels,
        fields=field_test(fields) if fields else None,
        selectors=(query.get("labelSelector", ""), query.get("fieldSelector", "")),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=max(_integer(query, "limit") or 0, 0),
        token=query.get("continue", ""),
        watch=watch,
        bookmarks=_flag(query, "allowWatchBookmarks") or False,
        timeout=_integer(query, "timeoutSeconds"),
        initial_events=_flag(query, "sendInitialEvents"),
    )
    problems = _validate(options)
    if problems:
        raise say.invalid("meta.k8s.io", "ListOptions", "", problems)
    return options


def label_selector(text: str) -> Selector:
    """Raises BadRequest."""
    try:
        return parse_labels(text)
    except SelectorError as err:
        raise errors.BadRequest(str(err)) from err


def _field_selector(kind: Kind, text: str) -> Selector:
    def known(name: str) -> str:
        if name not in kind.field_names:
            raise SelectorError(kind.unknown_field(name))
        return name

    try:
        return parse_fields(text, known)
    except SelectorError as err:
        raise errors.BadRequest(str(err)) from err


def _integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError as err:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from err


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    text = query.get(name)
    if text is None:
        return None
    return text.lower() not in ("false", "0", "")


def _validate(options: ListOptions) -> list[say.FieldError]:
    match, problems = options.match, []
    forbid = say.forbidden_field
    if options.watch:
        if options.initial_events is not None and match != "NotOlderThan":
            problems.append(
                forbid(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                )
            )
        if match and options.initial_events is None:
            problems.append(
                forbid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                    "provided",
                )
            )
        if match and match != "NotOlderThan":
            problems.append(say.not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
    else:
        if options.initial_events is not None:
            problems.append(forbid("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        if match:
            problems += _validate_match(options)
    if match and options.token:
        problems.append(
            forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            )
        )
    return problems


def _validate_match(options: ListOptions) -> list[say.FieldError]:
    match, problems = options.match, []
    if not options.version:
        problems.append(
            say.forbidden_field(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )
        )
    if match not in ("Exact", "NotOlderThan"):
        problems.append(
            say.not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""])
        )
    if match == "Exact" and options.version == "0":
        problems.append(
            say.forbidden_field(
                "resourceVersionMatch",
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            )
        )
    return problems


def matcher(kind: Kind, options: ListOptions, name: str = "") -> Callable[[Entry], bool] | None:
    """A test for entries, or None when everything matches."""
    labels, fields = options.labels, options.fields
    if labels is None and fields is None and not name:
        return None

    def matches(entry: Entry) -> bool:
        if name and entry.name != name:
            return False
        if labels is not None and not labels(entry.labels):
            return False
        return fields is None or fields(entry.fields(kind.fields))

    return matches


async def matching(entries: list[Entry], matches: Callable[[Entry], bool] | None) -> list[Entry]:
    """Those that match; others have their turn in between."""
    if matches is None:
        return entries
    found: list[Entry] = []
    for start in range(0, len(entries), PIECE):
        if start:
            await breathe()
        found += [e for e in entries[start : start + PIECE] if matches(e)]
    return found


class Reader:
    """The verbs that only look."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    async def get(self, kind: Kind, namespace: str, name: str, *, version: str = "") -> Entry:
        if version:
            await self.wait_for(self.revision_number(version))
        entry = self._store.get(kind.info.table, self._registry.key(kind, namespace, name))
        if entry is None:
            raise self._registry.not_found(kind, name)
        return entry

    def revision_number(self, version: str) -> int:
        if version and not is_revision(version):
            problem = say.invalid_value("resourceVersion", version, no_revision(version))
            raise say.invalid("meta.k8s.io", "ListOptions", "", [problem])
        return int(version or 0)

    async def wait_for(self, revision: int) -> None:
        """Wait a little for a revision of the future; then 504, as a lagging cache answers."""
        if revision <= self._store.revision:
            return
        try:
            async with asyncio.timeout(FRESH_WAIT):
                await elsewhere(self._store.reached(revision))
        except TimeoutError as err:
            raise errors.Timeout(
                f"Timeout: Too large resource version: {revision}, current: {self._store.revision}",
                details={
                    "causes": [
                        {
                            "reason": "ResourceVersionTooLarge",
                            "message": "Too large resource version",
                        }
                    ],
                    "retryAfterSeconds": 1,
                },
            ) from err

    async def page(
        self, kind: Kind, namespace: str, options: ListOptions, *, name: str = ""
    ) -> Page:
        """One page. Raises Gone when the asked-for state is no longer known."""
        prefix = f"{namespace}/" if namespace and kind.info.namespaced else ""
        after, revision = "", 0
        if options.token:
            revision, after = self._read_token(options, prefix)
        elif options.version:
            revision = self._list_revision(options.version)
            await self.wait_for(revision)
        exact = options.match == "Exact" or (
            bool(options.version and options.version != "0" and options.limit and not options.match)
        )
        if (options.token and revision > 0) or (exact and not options.token):
            entries = self._at(kind, revision, prefix, after, token=bool(options.token))
        else:
            revision = self._store.revision
            entries = list(self._store.scan(kind.info.table, prefix, after))
        matches = matcher(kind, options, name)
        entries = await matching(entries, matches)
        limit = 0 if options.version == "0" else options.limit
        if limit and len(entries) > limit:
            remaining = None if matches else len(entries) - limit
            entries = entries[:limit]
            token = _write_token(revision, entries[-1].key[len(prefix) :])
            return Page(entries, revision, token, remaining)
        return Page(entries, revision)

    def _at(
        self, kind: Kind, revision: int, prefix: str, after: str, *, token: bool
    ) -> list[Entry]:
        try:
            found = self._store.scan_at(kind.info.table, revision, prefix)
        except Compacted as err:
            if not token:
                raise errors.Gone("The resourceVersion for the provided list is too old.") from err
            gone = errors.Gone(EXPIRED_TOKEN)
            gone.continue_token = _write_token(-1, after[len(prefix) :])  # type: ignore[attr-defined]
            raise gone from err
        return [e for e in found if e.key > after]

    def _list_revision(self, version: str) -> int:
        try:
            return self.revision_number(version)
        except errors.Invalid as err:
            why = err.details["causes"][0]["message"]
            text = f"invalid resource version: resourceVersion: {why}"
            raise errors.BadRequest(text) from err

    def _read_token(self, options: ListOptions, prefix: str) -> tuple[int, str]:
        read = _decode_token(options.token)
        start, revision, encoding = read.get("start"), read.get("rv"), read.get("v", "")
        if encoding != "meta.k8s.io/v1":
            raise _bad_token(f"server does not recognize this encoded version {encoding}")
        if not revision:
            raise _bad_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        if not start:
            raise _bad_token("encoded start key empty (version meta.k8s.io/v1)")
        if start.startswith("/") or "/../" in f"/{start}":
            raise _bad_token(start)
        if options.version and options.version != "0":
            raise errors.BadRequest(
                "specifying resource version is not allowed when using continue"
            )
        return revision, prefix + start.rstrip("\x00")


def _decode_token(token: str) -> Obj:
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as err:
        at = next((i for i, c in enumerate(token) if c not in _TOKEN_LETTERS), len(token))
        raise _bad_token(f"illegal base64 data at input byte {at}") from err
    try:
        read = orjson.loads(raw)
    except orjson.JSONDecodeError as err:
        raise _bad_token(syntax_error(raw) or str(err)) from err
    wanted = (("start", str), ("rv", int), ("v", str))
    if not isinstance(read, dict) or not all(isinstance(read.get(k, t()), t) for k, t in wanted):
        raise _bad_token("the token is of the wrong type")
    return read


def _bad_token(why: str) -> errors.BadRequest:
    return errors.BadRequest(f"invalid continue token: continue key is not valid: {why}")


def _write_token(revision: int, last: str) -> str:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": last + "\x00"})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
