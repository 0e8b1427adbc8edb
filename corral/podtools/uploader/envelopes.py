"""What the uploader makes of ``result.json``: an envelope with the payload, or where it is.

No I/O. An envelope may be nested (``update_envelope``, ``results.update_envelope``) or be the
object itself; what it does not say about the round is filled in.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["MESSAGE_LIMIT", "Unfit", "envelope_of", "inlined", "referring"]

MESSAGE_LIMIT: Final = 4096
"""Bytes of a termination message."""
_FILLED: Final = {
    "task_id": "TASK_ID",
    "job_id": "FL_JOB_ID",
    "round_id": "ROUND_ID",
    "proplet_id": "PROPLET_ID",
    "global_version": "FL_GLOBAL_VERSION",
    "format": "FL_GLOBAL_UPDATE_FORMAT",
}

Result = dict[str, Any]


class Unfit(Exception):
    """What the task has left cannot be delivered; the message says why."""


def envelope_of(result: Result, env: Mapping[str, str]) -> Result:
    """The very envelope in a result, with what it did not say."""
    nested = result.get("results")
    envelope = result.get("update_envelope")
    if not isinstance(envelope, dict) and isinstance(nested, dict):
        envelope = nested.get("update_envelope")
    if not isinstance(envelope, dict):
        envelope = result
    for key, name in _FILLED.items():
        if not envelope.get(key) and env.get(name):
            envelope[key] = env[name]
    return envelope


def inlined(result: Result, envelope: Result, payload: bytes) -> str:
    """The message with the payload in it; an empty payload leaves what there is.

    Raises:
        Unfit: it does not fit.
    """
    if payload:
        if len(payload) > MESSAGE_LIMIT:
            raise Unfit(f"a payload of {len(payload)} bytes does not fit into a message")
        envelope["update_b64"] = base64.b64encode(payload).decode()
    return _message(result)


def referring(result: Result, envelope: Result, *, reference: str, size: int, digest: str) -> str:
    """The message that says where the payload is.

    Raises:
        Unfit: even that does not fit.
    """
    envelope.pop("update_b64", None)
    envelope["update_ref"] = reference
    envelope["update_bytes"] = size
    envelope["update_digest"] = digest
    return _message(result)


def _message(result: Result) -> str:
    text = json.dumps(result, separators=(",", ":"))
    if len(text.encode()) > MESSAGE_LIMIT:
        raise Unfit(
            f"result.json makes a message of {len(text.encode())} bytes, at most {MESSAGE_LIMIT} "
            "are possible: put the payload into the file update, and less beside it"
        )
    return text
