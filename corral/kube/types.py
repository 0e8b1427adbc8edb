"""The one type that crosses every module border: a Kubernetes object as parsed from JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

Obj: TypeAlias = dict[str, Any]
