"""What the API server is told about objects of the group before they are written."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api.propeller.kinds import KINDS
from corral.families.federated.webhooks import register_hooks
from corral.runtime.webhooks import Hooks
from corral.runtime.webhooks.review import AdmissionRequest

Obj = dict[str, Any]
GROUP = "propeller.absmach.io"


def job(**spec: Any) -> Obj:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "FederatedJob",
        "metadata": {"name": "j", "namespace": "a"},
        "spec": {
            "experimentId": "e",
            "modelRef": "m",
            "taskWasmImage": "i",
            "participants": [{"propletId": "p"}],
            "kOfN": 1,
            "timeoutSeconds": 1,
            "rounds": {"total": 1},
            "aggregator": {"algorithm": "fedavg"},
            **spec,
        },
    }


async def ask(verb: str, plural: str, new: Obj) -> Obj:
    hooks = Hooks()
    register_hooks(hooks)
    request = AdmissionRequest(
        uid="u", group=GROUP, version="v1alpha1", kind=new["kind"], resource="",
        operation="CREATE", object=new, old=None,
    )  # fmt: skip
    (hook,) = [
        hook
        for path, hook in hooks.admission.items()
        if path.startswith(f"/{verb}/") and hook.resource.plural == plural
    ]
    answer = await hook.answer(request)
    response: Obj = answer["response"]
    return response


def test_every_kind_is_asked_about() -> None:
    hooks = Hooks()
    register_hooks(hooks)
    asked = {(hook.resource.plural, hook.mutating) for hook in hooks.admission.values()}
    assert asked == {(kind.names.plural, mutating) for kind in KINDS for mutating in (True, False)}


async def test_an_invalid_job_is_admitted_with_a_warning() -> None:
    answer = await ask("validate", "federatedjobs", job(kOfN=0))
    assert answer["allowed"] is True
    assert answer["warnings"] == ["kOfN must be greater than 0; the job will fail with InvalidSpec"]


@pytest.mark.parametrize(
    ("aggregator", "field"),
    [
        ({"algorithm": "fedbest"}, "spec.aggregator.algorithm"),
        ({"algorithm": "fedprox", "config": {"nu": 1}}, "spec.aggregator.config.nu"),
        ({"algorithm": "fedprox", "config": {"mu": "1"}}, "spec.aggregator.config.mu"),
    ],
)
async def test_what_the_engine_does_not_know_is_refused(aggregator: Obj, field: str) -> None:
    answer = await ask("validate", "federatedjobs", job(aggregator=aggregator))
    assert answer["allowed"] is False
    assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == [field]
