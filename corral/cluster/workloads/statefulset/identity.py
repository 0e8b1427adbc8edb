"""What makes a pod of a stateful set this very one: ordinal, name, labels, claims."""

from __future__ import annotations

import re
from typing import Final

from corral.cluster.workloads.pods import controller_reference, pod_body, uid
from corral.kube.types import Obj

__all__ = [
    "claim_bodies",
    "claim_owners",
    "end_ordinal",
    "has_identity",
    "has_stale_owner",
    "has_storage",
    "in_range",
    "new_pod",
    "ordinal",
    "owners_are_right",
    "parent_name",
    "pod_revision",
    "start_ordinal",
    "with_identity",
]

API_VERSION: Final = "apps/v1"
KIND: Final = "StatefulSet"
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
REVISION_LABEL: Final = "controller-revision-hash"
_NAME = re.compile(r"(.*)-([0-9]+)$").match


def _name_parts(pod: Obj) -> tuple[str, int]:
    found = _NAME(pod["metadata"].get("name", ""))
    if found is None:
        return "", -1
    number = int(found[2])
    return found[1], number if number < 2**31 else -1


def ordinal(pod: Obj) -> int:
    """-1 when the name has none."""
    return _name_parts(pod)[1]


def parent_name(pod: Obj) -> str:
    """The name of the set a pod's name says it belongs to."""
    return _name_parts(pod)[0]


def start_ordinal(stateful_set: Obj) -> int:
    return int((stateful_set["spec"].get("ordinals") or {}).get("start", 0))


def size(stateful_set: Obj) -> int:
    found = stateful_set["spec"].get("replicas")
    return 1 if found is None else int(found)


def end_ordinal(stateful_set: Obj) -> int:
    """One past the last."""
    return start_ordinal(stateful_set) + size(stateful_set)


def in_range(pod: Obj, stateful_set: Obj) -> bool:
    return start_ordinal(stateful_set) <= ordinal(pod) < end_ordinal(stateful_set)


def pod_revision(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def _pod_name(stateful_set: Obj, number: int) -> str:
    return f"{stateful_set['metadata']['name']}-{number}"


def _templates(stateful_set: Obj) -> list[Obj]:
    return list(stateful_set["spec"].get("volumeClaimTemplates") or ())


def claim_name(stateful_set: Obj, template: Obj, number: int) -> str:
    return f"{template['metadata']['name']}-{_pod_name(stateful_set, number)}"


def claim_bodies(stateful_set: Obj, number: int) -> list[Obj]:
    """The volume claims of one pod."""
    labels = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    bodies = []
    for template in _templates(stateful_set):
        meta = {
            **template["metadata"],
            "name": claim_name(stateful_set, template, number),
            "namespace": stateful_set["metadata"].get("namespace", ""),
            "labels": {**(template["metadata"].get("labels") or {}), **labels},
        }
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        body = {key: value for key, value in template.items() if key != "status"}
        bodies.append({**kind, **body, "metadata": meta})
    return bodies


def _with_storage(stateful_set: Obj, spec: Obj, number: int) -> Obj:
    volumes: list[Obj] = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(stateful_set, template, number)},
        }
        for template in _templates(stateful_set)
    ]
    claimed = {volume["name"] for volume in volumes}
    volumes += [v for v in spec.get("volumes") or () if v.get("name") not in claimed]
    return {**spec, "volumes": volumes} if volumes else spec


def new_pod(stateful_set: Obj, number: int, revision: str) -> Obj:
    """The body of a pod at one ordinal."""
    reference = controller_reference(stateful_set, API_VERSION, KIND)
    body = pod_body(stateful_set["spec"]["template"], stateful_set, reference)
    name = _pod_name(stateful_set, number)
    meta = body["metadata"]
    meta["name"] = name
    meta["labels"] = {
        **(meta.get("labels") or {}),
        POD_NAME_LABEL: name,
        POD_INDEX_LABEL: str(number),
        REVISION_LABEL: revision,
    }
    spec = {**body["spec"], "hostname": name}
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    body["spec"] = _with_storage(stateful_set, spec, number)
    return body


def has_identity(stateful_set: Obj, pod: Obj) -> bool:
    """The pod carries the labels and name of its place."""
    parent, number = _name_parts(pod)
    meta = pod["metadata"]
    return (
        number >= 0
        and parent == stateful_set["metadata"]["name"]
        and meta["name"] == _pod_name(stateful_set, number)
        and (meta.get("labels") or {}).get(POD_NAME_LABEL) == meta["name"]
    )


def has_storage(stateful_set: Obj, pod: Obj) -> bool:
    """The pod uses the claims of its place."""
    volumes = {v.get("name"): v for v in (pod.get("spec") or {}).get("volumes") or ()}
    return all(
        (volumes.get(template["metadata"]["name"], {}).get("persistentVolumeClaim") or {}).get(
            "claimName"
        )
        == claim_name(stateful_set, template, ordinal(pod))
        for template in _templates(stateful_set)
    )


def with_identity(stateful_set: Obj, pod: Obj) -> Obj:
    """The pod with the labels and volumes of its place."""
    number, meta = ordinal(pod), pod["metadata"]
    labels = {
        **(meta.get("labels") or {}),
        POD_NAME_LABEL: _pod_name(stateful_set, number),
        POD_INDEX_LABEL: str(number),
    }
    spec = pod.get("spec") or {}
    if not has_storage(stateful_set, pod):
        spec = _with_storage(stateful_set, spec, number)
    return {**pod, "metadata": {**meta, "labels": labels}, "spec": spec}


# --- who owns a claim: the retention policy -------------------------------------------------


def _policy(stateful_set: Obj) -> tuple[bool, bool]:
    """(deleted when scaled down, deleted with the set)."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled") == "Delete", policy.get("whenDeleted") == "Delete"


def _refers(reference: Obj, obj: Obj, api_version: str, kind: str) -> bool:
    wanted = (api_version, kind, obj["metadata"]["name"])
    return (reference.get("apiVersion"), reference.get("kind"), reference.get("name")) == wanted


def _owners(claim: Obj) -> list[Obj]:
    return list(claim["metadata"].get("ownerReferences") or ())


def has_stale_owner(claim: Obj, obj: Obj, api_version: str, kind: str) -> bool:
    """Owned by an earlier object of the same name, whose deletion will take the claim along."""
    named = [r for r in _owners(claim) if _refers(r, obj, api_version, kind)]
    return bool(named) and named[0].get("uid") != uid(obj)


def has_other_controller(claim: Obj, stateful_set: Obj, pod: Obj) -> bool:
    """Somebody else decides about this claim; then the policy does not apply to it."""
    if not any(_policy(stateful_set)):
        return False
    for reference in _owners(claim):
        mine = _refers(reference, stateful_set, API_VERSION, KIND)
        pods = _refers(reference, pod, "v1", "Pod")
        if mine or pods:
            if reference.get("uid") != uid(stateful_set if mine else pod):
                return True
        elif reference.get("controller"):
            return True
    return False


def _wanted(stateful_set: Obj, pod: Obj) -> tuple[bool, bool]:
    """(owned by the set, owned by the pod)."""
    scaled, deleted = _policy(stateful_set)
    condemned = not in_range(pod, stateful_set)
    by_pod = scaled and condemned
    return deleted and not by_pod, by_pod


def owners_are_right(claim: Obj, stateful_set: Obj, pod: Obj) -> bool:
    """The claim's owners are what the retention policy asks for."""
    if has_stale_owner(claim, stateful_set, API_VERSION, KIND):
        return True
    if has_stale_owner(claim, pod, "v1", "Pod"):
        return True
    ours = [r for r in _owners(claim) if r.get("uid") in (uid(stateful_set), uid(pod))]
    if has_other_controller(claim, stateful_set, pod):
        return not ours
    if any(not reference.get("controller") for reference in ours):
        return False
    uids = {reference.get("uid") for reference in ours}
    return (uid(stateful_set) in uids, uid(pod) in uids) == _wanted(stateful_set, pod)


def claim_owners(claim: Obj, stateful_set: Obj, pod: Obj) -> list[Obj]:
    """The owner references the claim should have."""
    others = [
        r
        for r in _owners(claim)
        if not _refers(r, stateful_set, API_VERSION, KIND) and not _refers(r, pod, "v1", "Pod")
    ]
    if has_other_controller(claim, stateful_set, pod):
        return others
    by_set, by_pod = _wanted(stateful_set, pod)
    if by_set:
        others.append(controller_reference(stateful_set, API_VERSION, KIND))
    if by_pod:
        others.append(controller_reference(pod, "v1", "Pod"))
    return others
