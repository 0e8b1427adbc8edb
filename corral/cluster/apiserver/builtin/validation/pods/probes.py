"""Handlers of containers: probes and lifecycle hooks."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    http_header_name,
    port_name,
    port_number,
)
from corral.kube.types import Obj

__all__ = ["check_lifecycle", "check_port", "check_probes"]

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_LIFECYCLE_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS = check.counts(
    "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold"
)


def check_port(errs: Errors, port: Any, path: str) -> None:
    """A port by number or by name."""
    if isinstance(port, str):
        errs.format(path, port, port_name)
    elif found := port_number(port or 0):
        errs.invalid_each(path, port or 0, found)


def _check_http(errs: Errors, action: Obj, path: str) -> None:
    if not action.get("path"):
        errs.required(f"{path}.path")
    check_port(errs, action.get("port", ""), f"{path}.port")
    scheme = action.get("scheme") or ""
    if scheme not in ("HTTP", "HTTPS"):
        errs.not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        errs.format(f"{path}.httpHeaders", name, http_header_name)


def _check_action(errs: Errors, kind: str, action: Obj, grace: int | None, path: str) -> None:
    if kind == "exec":
        if not action.get("command"):
            errs.required(f"{path}.command")
    elif kind == "httpGet":
        _check_http(errs, action, path)
    elif kind == "tcpSocket":
        check_port(errs, action.get("port", ""), f"{path}.port")
    elif kind == "grpc":
        check_port(errs, action.get("port") or 0, f"{path}.port")
    else:
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errs.invalid(path, seconds, why)


def _check_handler(
    errs: Errors, handler: Obj, kinds: tuple[str, ...], grace: int | None, path: str
) -> None:
    found = False
    for kind in kinds:
        action = handler.get(kind)
        if action is None:
            continue
        if found:
            errs.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
            continue
        found = True
        _check_action(errs, kind, action, grace, f"{path}.{kind}")
    if not found:
        errs.required(path, "must specify a handler type")


def _check_probe(errs: Errors, probe: Obj, kind: str, grace: int | None, path: str) -> None:
    _check_handler(errs, probe, _HANDLERS[:4], grace, path)
    _COUNTS(errs, probe, path)
    own_grace = probe.get("terminationGracePeriodSeconds")
    where = f"{path}.terminationGracePeriodSeconds"
    if own_grace is not None and own_grace <= 0:
        errs.invalid(where, own_grace, "must be greater than 0")
    if kind == "readinessProbe":
        if own_grace is not None:
            errs.invalid(where, own_grace, "must not be set for readinessProbes")
    elif (successes := probe.get("successThreshold") or 0) != 1:
        errs.invalid(f"{path}.successThreshold", successes, "must be 1")


def check_probes(errs: Errors, container: Obj, grace: int | None, path: str) -> None:
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is not None:
            _check_probe(errs, probe, kind, grace, f"{path}.{kind}")


def check_lifecycle(errs: Errors, lifecycle: Obj, grace: int | None, path: str) -> None:
    for kind in ("postStart", "preStop"):
        handler = lifecycle.get(kind)
        if handler is not None:
            _check_handler(errs, handler, _LIFECYCLE_HANDLERS, grace, f"{path}.{kind}")
