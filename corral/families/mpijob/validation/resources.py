"""Area 1, resources: amounts that can be asked for, and limits for everything that runs."""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.mpi.spec import LAUNCHER
from corral.families.mpijob.validation.findings import (
    Finding,
    Findings,
    PlacedContainer,
    Subject,
    advice,
    errors,
    policy,
)
from corral.families.mpijob.validation.formats import amount, qualified_name
from corral.kube.problems import FieldError, forbidden_field, invalid_value, required
from corral.kube.quantity import Quantity

__all__ = ["check", "is_extended"]

_LIMITED = ("cpu", "memory")
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})


def check(subject: Subject) -> Findings:
    for pod in subject.pods():
        for place in pod.all_containers:
            yield from errors(_amounts(place))
            yield from errors(_bounds(place))
            yield from errors(_huge_pages(place))
        for place in pod.containers:
            yield from _unlimited(place)
    yield from _idle_accelerators(subject)


def is_extended(name: str) -> bool:
    """Whether a resource is of a device plugin, such as ``nvidia.com/gpu``."""
    return "/" in name and "kubernetes.io/" not in name


def _wanted(place: PlacedContainer, kind: str) -> dict[str, int | str]:
    resources = place.container.resources
    found = getattr(resources, kind) if resources is not None else None
    return found or {}


def _amounts(place: PlacedContainer) -> Iterator[FieldError]:
    for kind in ("limits", "requests"):
        for name, text in _wanted(place, kind).items():
            yield from _one_amount(f"{place.path}.resources.{kind}[{name}]", name, text)


def _one_amount(path: str, name: str, text: int | str) -> Iterator[FieldError]:
    wrong = next(iter(qualified_name(name)), "")
    if not wrong and "/" not in name and name not in _STANDARD and not _is_huge_page(name):
        wrong = "must be a standard resource for containers"
    if not wrong and is_extended(name) and name.startswith("requests."):
        wrong = "doesn't follow extended resource name standard"
    if wrong:
        yield invalid_value(path, name, wrong)
    found = amount(text)
    if found is None:
        yield invalid_value(path, text, "must be a quantity")
    elif found < Quantity(0):
        yield invalid_value(path, str(found), "must be greater than or equal to 0")
    elif is_extended(name) and found.nano % 10**9:
        yield invalid_value(path, str(found), "must be an integer")


def _is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")


def _bounds(place: PlacedContainer) -> Iterator[FieldError]:
    """Requests are within limits; devices are never shared out twice."""
    path, limits = f"{place.path}.resources", _wanted(place, "limits")
    for name, text in _wanted(place, "requests").items():
        request, limit = amount(text), amount(limits.get(name))
        fixed = is_extended(name) or _is_huge_page(name)
        if request is None:
            continue
        if limit is None:
            if fixed and name not in limits:
                why = "Limit must be set for non overcommitable resources"
                yield required(f"{path}.limits", why)
        elif fixed and request != limit:
            why = f"must be equal to {name} limit of {limit}"
            yield invalid_value(f"{path}.requests", str(request), why)
        elif request > limit:
            why = f"must be less than or equal to {name} limit of {limit}"
            yield invalid_value(f"{path}.requests", str(request), why)


def _huge_pages(place: PlacedContainer) -> Iterator[FieldError]:
    named = {*_wanted(place, "limits"), *_wanted(place, "requests")}
    if any(map(_is_huge_page, named)) and not named & {"cpu", "memory"}:
        yield forbidden_field(f"{place.path}.resources", "HugePages require cpu or memory")


def _unlimited(place: PlacedContainer) -> Iterator[Finding]:
    limits = _wanted(place, "limits")
    for name in _LIMITED:
        if name not in limits:
            path = f"{place.path}.resources.limits[{name}]"
            yield policy(required(path, "every container must have a limit"))


def _idle_accelerators(subject: Subject) -> Findings:
    launcher = subject.pod(LAUNCHER)
    if launcher is None or subject.spec.run_launcher_as_worker:
        return
    for place in launcher.containers:
        for name in _wanted(place, "limits"):
            if is_extended(name) and "gpu" in name:
                path = f"{place.path}.resources.limits[{name}]"
                text = "the launcher does not see GPUs unless spec.runLauncherAsWorker is true"
                yield advice(path, text)
