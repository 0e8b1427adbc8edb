"""JSON patch (RFC 6902), as kube-apiserver understands it.

Written by hand because kube-apiserver's library departs from the RFC where clients can see it, and
the ``jsonpatch`` package follows the RFC:

* ``replace`` of a missing member adds it; ``copy`` of a missing member adds null; an absent
  ``value`` is null; ``test`` for null holds for a missing member;
* negative indexes count from the end, and ``add`` at -1 appends;
* the text before the first slash of a path is ignored; only ``replace`` and ``test`` take the
  whole document;
* a patch has at most 10000 operations, and its copies at most 3 MiB in all.

One thing is deliberately not copied: kube-apiserver's ``test`` compares strings as they are escaped
on the wire, so that an escaped letter is unequal to the letter itself. Here values are compared.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import orjson

from corral.cluster.apiserver.patch.body import parse, refuse, reject_as_document
from corral.cluster.apiserver.patch.goformat import json_type
from corral.kube.errors import BadRequest, RequestEntityTooLarge
from corral.kube.types import Obj

__all__ = ["MAX_COPIED_BYTES", "MAX_OPERATIONS", "apply_json_patch"]

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

Container: TypeAlias = dict[str, Any] | list[Any]

_STRING_MEMBERS = frozenset({"op", "path", "from"})
_MEMBERS = _STRING_MEMBERS | {"value"}
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")


class _DoesNotApply(Exception):
    """The document has nothing at the place an operation names, or not what it expects.

    Webhooks and policies pass the text on, so it is that of kube-apiserver's library.
    """


class _Unreachable(_DoesNotApply):
    """A container has no such member or item."""


_MISSING = {
    ("add", "path"): 'doc is missing path: "{}"',
    ("remove", "path"): 'doc is missing path: "{}"',
    ("replace", "path"): "doc is missing path: {}",
    ("move", "from"): "doc is missing from path: {}",
    ("move", "path"): "doc is missing destination path: {}",
    ("copy", "from"): "doc is missing from path: {}",
    ("copy", "path"): "doc is missing destination path: {}",
    ("test", "path"): "is missing path: {}",
}


def apply_json_patch(doc: Obj, body: bytes, *, problems: list[str] | None = None) -> Obj:
    """Apply the operations in order; ``doc`` is changed, also when a later operation fails.

    Unknown members of operations are ignored, and described in ``problems`` where that is given.

    Raises:
        BadRequest: the body is not a list of operations.
        RequestEntityTooLarge: it has too many of them.
        Invalid: an operation does not apply.
    """
    operations = _operations(body, problems)
    patching = _Patching(doc)
    try:
        for operation in operations:
            patching.run(operation or {})
    except (_DoesNotApply, orjson.JSONEncodeError) as error:
        refuse(error)
    if isinstance(patching.root, list):
        reject_as_document(patching.root)
    return patching.root


def _operations(body: bytes, problems: list[str] | None) -> list[Obj | None]:
    found = parse(body)
    if found is None:
        return []
    if not isinstance(found, list):
        if problems is None:
            target = "Go value of type jsonpatch.Patch"
            raise BadRequest(f"json: cannot unmarshal {json_type(found)} into {target}")
        raise _undecodable(found, "Go value of type []handlers.jsonPatchOp")
    for at, operation in enumerate(found):
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise _undecodable(operation, "Go value of type handlers.jsonPatchOp")
        for member, value in operation.items():
            if member in _STRING_MEMBERS:
                if value is not None and not isinstance(value, str):
                    where = f"Go struct field jsonPatchOp.{member} of type string"
                    raise _undecodable(value, where)
            elif problems is not None and member not in _MEMBERS:
                problems.append(f'json patch unknown field "[{at}].{member}"')
    if len(found) > MAX_OPERATIONS:
        raise RequestEntityTooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(found)}"
        )
    return found


def _undecodable(value: Any, target: str) -> BadRequest:
    return BadRequest(
        f"error decoding patch: json: cannot unmarshal {json_type(value)} into {target}"
    )


class _Patching:
    """One document while its operations run."""

    def __init__(self, root: Container) -> None:
        self.root = root
        self.copied = 0

    def run(self, operation: Obj) -> None:
        match operation.get("op"):
            case "add":
                _add(*self._place(operation, "path"), operation.get("value"))
            case "remove":
                self._remove(operation)
            case "replace":
                self._replace(operation)
            case "move":
                source = self._place(operation, "from")
                value = _get(*source)
                _remove(*source)
                _add(*self._place(operation, "path"), value)
            case "copy":
                self._copy(operation)
            case "test":
                self._test(operation)
            case kind:
                raise _DoesNotApply(f"Unexpected kind: {kind}")

    def _place(self, operation: Obj, member: str) -> tuple[Container, str]:
        """The container a path leads to, and the key in it."""
        path = operation.get(member)
        if path is None or "/" not in path:
            raise _DoesNotApply(f"no {member} into the document")
        _, *parts, key = path.split("/")
        here: Any = self.root
        for part in parts:
            here = _get(here, _unescape(part))
            if not isinstance(here, dict | list):
                kind = operation.get("op", "")
                where = _MISSING[kind, member].format(path)
                raise _DoesNotApply(f"{kind} operation does not apply: {where}: missing value")
        return here, _unescape(key)

    def _remove(self, operation: Obj) -> None:
        try:
            _remove(*self._place(operation, "path"))
        except _Unreachable as why:
            where = operation["path"]
            raise _DoesNotApply(f"error in remove for path: '{where}': {why}") from None

    def _replace(self, operation: Obj) -> None:
        value = operation.get("value")
        if operation.get("path") == "":
            if not isinstance(value, dict | list):
                raise _DoesNotApply("a document is an object or a list")
            self.root = value
            return
        container, key = self._place(operation, "path")
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container))] = value

    def _copy(self, operation: Obj) -> None:
        raw = orjson.dumps(_get(*self._place(operation, "from")))
        target = self._place(operation, "path")
        self.copied += len(raw)
        if self.copied > MAX_COPIED_BYTES:
            raise _DoesNotApply(f"copies of more than {MAX_COPIED_BYTES} bytes")
        _add(*target, orjson.loads(raw))

    def _test(self, operation: Obj) -> None:
        whole = operation.get("path") == ""
        found = self.root if whole else _get(*self._place(operation, "path"))
        if not _same(found, operation.get("value")):
            raise _DoesNotApply(f"testing value {operation.get('path')} failed: test failed")


def _unescape(token: str) -> str:
    if "~" not in token:
        return token
    return token.replace("~1", "/").replace("~0", "~")


def _index(token: str, size: int) -> int:
    """The position below ``size`` that a token names."""
    if not _INDEX.fullmatch(token):
        raise _DoesNotApply(f"not an index: {token}")
    index = int(token)
    if not -size <= index < size:
        raise _Unreachable(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % size


def _get(container: Container, key: str) -> Any:
    """A missing member is null, a missing item is an error."""
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _add(container: Container, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1), value)


def _remove(container: Container, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _Unreachable(f"Unable to remove nonexistent key: {key}: missing value")


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1, 1.0 and true are three different ones."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict | list):
        option = orjson.OPT_SORT_KEYS
        return orjson.dumps(left, option=option) == orjson.dumps(right, option=option)
    return bool(left == right)
