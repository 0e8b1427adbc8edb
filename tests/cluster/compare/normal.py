"""Answers made comparable: what two correct servers cannot have in common is taken out.

That is: uids, resource versions (kept is only whether a write changed it), times, generated
suffixes, allocated addresses and ports, the order of managedFields entries (it follows times), the
order of causes. Everything else must be equal, messages included.
"""

from __future__ import annotations

import json
import re
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\b10\.96\.\d+\.\d+\b")
_REVISION = re.compile(
    r"(?<=resource version: )\d+|(?<=current: )\d+|(?<=precondition \()\d+|(?<=record \()\d+"
)
_ACCESS = re.compile(r"kube-api-access-[a-z0-9]{5}\b")
# Values that the reference prints as its internal Go structs.
# An empty list or map is printed as such, or as none where ours keeps none.
_NOTHING = re.compile(r"Invalid value: (null|\[\]|\{\}):")
_QUOTED = re.compile(r"Invalid value: [\[{].*[\]}]: field is immutable", re.S)
_DIFF = re.compile(r"\n(@@ -|  core\.).*", re.S)
_NODE_PORT = re.compile(r"Duplicate value: 3[0-2]\d{3}\b")
# Where the object lies in etcd.
_STORAGE = re.compile(
    r"StorageError: invalid object, Code: 4, Key: [^,]*, ResourceVersion: 0, AdditionalErrorMsg: "
)
_GO_MEMORY = re.compile(r"0x[0-9a-f]{6,}")
_TIMES = frozenset(
    {"creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime", "acceptedAt"}
)


class Normal:
    """Normalises the answer of one server, given the object's metadata before the request."""

    def __init__(
        self,
        before: dict[str, Any] | None = None,
        *,
        generated: str = "",
        messages: bool = True,
        ports: bool = True,
    ) -> None:
        self._before = before or {}
        self._generated = re.compile(re.escape(generated) + "[a-z0-9]{5}\\b") if generated else None
        self._messages = messages
        self._ports = ports

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("kind") == "Status" and "status" in value:
                return self._status(value)
            return {
                key: self._field(key, inner)
                for key, inner in value.items()
                if (key, inner) != ("continue", "")  # lists of custom objects have it always
            }
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, str):
            return self._text(value)
        return value

    def _field(self, key: str, value: Any) -> Any:
        if key == "managedFields" and isinstance(value, list):
            return sorted((self.value(entry) for entry in value), key=_entry_key)
        if key == "resourceVersion" and isinstance(value, str):
            if not value:
                return value
            return "same" if value == self._before.get("resourceVersion") else "new"
        if key == "uid" and isinstance(value, str) and _UID.fullmatch(value):
            return "same" if value == self._before.get("uid") else "new"
        if key in _TIMES and isinstance(value, str) and _TIME.fullmatch(value):
            return "time"
        if key in ("nodePort", "healthCheckNodePort") and isinstance(value, int) and value > 29999:
            return "port" if self._ports else value
        return self.value(value)

    def _cause(self, cause: Any) -> Any:
        """A refused patch is quoted back in the order of Go's maps and buffers."""
        if isinstance(cause, dict) and cause.get("field") == "patch":
            return {**cause, "message": "of the patch"}
        return cause

    def _status(self, status: dict[str, Any]) -> Any:
        out = {key: self.value(inner) for key, inner in status.items() if key != "kind"}
        details = out.get("details")
        if isinstance(details, dict) and isinstance(details.get("causes"), list):
            # Of custom objects kube-apiserver lists some causes several times.
            causes = {_sortable(c): c for c in map(self._cause, details["causes"])}
            details["causes"] = [causes[key] for key in sorted(causes)]
        if details == {}:
            del out["details"]  # some refusals of the reference have details with nothing in them
        message = out.get("message")
        if not self._messages:
            out.pop("message", None)
        elif isinstance(message, str):
            causes = details.get("causes") if isinstance(details, dict) else None
            out["message"] = _told(message, causes)
        return {"kind": "Status", **out}

    def _text(self, text: str) -> str:
        text = _UID.sub("UID", text)
        text = _TIME.sub("TIME", text)
        text = _ADDRESS.sub("ADDRESS", text)
        text = _GO_MEMORY.sub("POINTER", text)
        text = _REVISION.sub("REVISION", text)
        text = _ACCESS.sub("kube-api-access-NAME", text)
        text = _QUOTED.sub("Invalid value: VALUE: field is immutable", text)
        text = _DIFF.sub("", text)
        text = _STORAGE.sub("", text)
        text = _NODE_PORT.sub("Duplicate value: PORT", text)
        text = _NOTHING.sub("Invalid value: VALUE:", text)
        if self._generated:
            text = self._generated.sub("GENERATED", text)
        return text


def _sortable(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _entry_key(entry: Any) -> str:
    return json.dumps(
        [entry.get(k, "") for k in ("manager", "operation", "subresource", "apiVersion")]
        if isinstance(entry, dict)
        else entry
    )


def _told(message: str, causes: Any) -> str:
    """A message that lists its causes says no more than they do, in no fixed order."""
    head, invalid, _ = message.partition(" is invalid: ")
    return head + invalid if causes and invalid else message


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Every place where two values are not equal, as lines."""
    if type(ours) is not type(theirs):
        return [f"{path or '.'}: ours {_show(ours)} theirs {_show(theirs)}"]
    if isinstance(ours, dict):
        found = []
        for key in sorted(ours.keys() | theirs.keys()):
            here = f"{path}.{key}"
            if key not in ours:
                found.append(f"{here}: ours is missing {_show(theirs[key])}")
            elif key not in theirs:
                found.append(f"{here}: ours has {_show(ours[key])}")
            else:
                found += differences(ours[key], theirs[key], here)
        return found
    if isinstance(ours, list):
        if len(ours) != len(theirs):
            return [f"{path}: ours {_show(ours)} theirs {_show(theirs)}"]
        found = []
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            found += differences(left, right, f"{path}[{index}]")
        return found
    return [] if ours == theirs else [f"{path}: ours {_show(ours)} theirs {_show(theirs)}"]


def _show(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) < 1200 else text[:1200] + "…"
