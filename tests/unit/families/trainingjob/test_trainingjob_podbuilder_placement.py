"""Where the pod of a replica runs, as whom, and beside which sidecars."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.trainingjob.objects.gangs import Gang, gang_of
from corral.families.trainingjob.objects.placement import leave_dead_nodes, one_of_each_model
from corral.families.trainingjob.objects.podbuilder import PodBuilder
from corral.kube.discovery import ApiResource, Discovery
from corral.kube.resources import resource
from corral.kube.types import Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
COSCHEDULING = resource("scheduling.x-k8s.io/v1alpha1", "podgroups", kind="PodGroup")
VOLCANO = resource("scheduling.volcano.sh/v1beta1", "podgroups", kind="PodGroup")
ENFORCE = "pod-security.kubernetes.io/enforce"


def builder(**spec: Any) -> PodBuilder:
    return PodBuilder("mnist", "team-a", 0).with_spec({"image": "train:1", **spec})


def pod_spec(**spec: Any) -> Obj:
    found: Obj = builder(**spec).build()["spec"]
    return found


def template(**pod: Any) -> Obj:
    return {"spec": {"containers": [{"name": "main"}], **pod}}


# --- scheduling -----------------------------------------------------------------------------------


def test_priority_is_the_jobs_unless_the_template_has_one() -> None:
    high = {"priorityClassName": "high"}
    assert pod_spec(scheduling=high)["priorityClassName"] == "high"
    own = template(priorityClassName="low")
    assert pod_spec(scheduling=high, template=own)["priorityClassName"] == "low"


@pytest.mark.parametrize("mode", ["Preferred", "Required"])
def test_replicas_are_near_each_other(mode: str) -> None:
    affinity = pod_spec(scheduling={"topology": {"key": "rack", "mode": mode}})["affinity"]
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"trainingjob": "mnist"}}}
    preferred = {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}
    assert affinity == {"podAffinity": {REQUIRED: [term]} if mode == "Required" else preferred}


def test_the_affinity_of_the_template_stays() -> None:
    theirs = {"topologyKey": "zone", "labelSelector": {}}
    own = template(affinity={"podAffinity": {REQUIRED: [theirs]}, "podAntiAffinity": {}})
    scheduling = {"topology": {"key": "rack", "mode": "Required"}}
    affinity = pod_spec(scheduling=scheduling, template=own)["affinity"]
    assert [term["topologyKey"] for term in affinity["podAffinity"][REQUIRED]] == ["zone", "rack"]
    assert affinity["podAntiAffinity"] == {}


def nodes(*products: str) -> list[Obj]:
    return [{"metadata": {"labels": {"nvidia.com/gpu.product": name}}} for name in products]


def terms(built: Obj) -> list[Obj]:
    affinity = built["spec"]["affinity"]["nodeAffinity"]
    found: list[Obj] = affinity[REQUIRED]["nodeSelectorTerms"]
    return found


def test_a_model_is_found_in_the_labels_of_nodes() -> None:
    known = nodes("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-A100-SXM4-40GB")
    pod = builder(scheduling={"gpu": {"model": "H100"}}).with_nodes(known).build()
    values = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"]
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": values}
    assert terms(pod) == [{"matchExpressions": [product]}]


def test_one_node_of_each_model_will_do() -> None:
    known = nodes("NVIDIA-L4", "NVIDIA-L4", "NVIDIA-H100-PCIe")
    plain: Obj = {"metadata": {"labels": {"zone": "a"}}}
    assert one_of_each_model([plain, *known, {"metadata": {}}]) == known[1:]


def test_a_model_that_no_node_has_yet_is_named_itself() -> None:
    pod = builder(scheduling={"gpu": {"model": "H100"}}).with_nodes(nodes("NVIDIA-L4")).build()
    named = [term["matchExpressions"][0] for term in terms(pod)]
    assert [(each["key"], each["values"]) for each in named] == [
        ("nvidia.com/gpu.product", ["H100"]),
        ("cloud.google.com/gke-accelerator", ["h100"]),
        ("karpenter.k8s.aws/instance-gpu-name", ["h100"]),
    ]


def test_alternatives_of_the_template_hold_with_the_model() -> None:
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        for zone in ("a", "b")
    ]
    own = template(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": zones}}})
    job = builder(scheduling={"gpu": {"model": "L4"}}, template=own)
    pod = job.with_nodes(nodes("NVIDIA-L4")).build()
    keys = [[each["key"] for each in term["matchExpressions"]] for term in terms(pod)]
    assert keys == [["zone", "nvidia.com/gpu.product"]] * 2


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        ({}, {"nvidia.com/mig-1g.10gb": "1"}),
        ({"limits": {"nvidia.com/gpu": "2"}}, {"nvidia.com/mig-1g.10gb": "2"}),
        ({"limits": {"nvidia.com/mig-1g.10gb": "3"}}, {"nvidia.com/mig-1g.10gb": "3"}),
    ],
)
def test_parts_of_gpus(resources: Obj, limits: Obj) -> None:
    spec = pod_spec(scheduling={"gpu": {"mig": "1g.10gb"}}, resources=resources)
    assert spec["containers"][0]["resources"]["limits"] == limits


def test_parts_of_gpus_are_processes_too() -> None:
    spec = pod_spec(
        framework="pytorch",
        procsPerReplica="auto",
        scheduling={"gpu": {"mig": "1g.10gb"}},
        resources={"limits": {"nvidia.com/gpu": "2"}},
    )
    env = {each["name"]: each["value"] for each in spec["containers"][0]["env"]}
    assert env["PET_NPROC_PER_NODE"] == "2"


# --- gangs ----------------------------------------------------------------------------------------


def test_members_of_a_gang_say_so_in_the_words_of_its_kind() -> None:
    coscheduled = builder().with_gang(Gang(COSCHEDULING)).build()
    assert coscheduled["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist"
    assert "schedulerName" not in coscheduled["spec"]
    volcano = builder().with_gang(Gang(VOLCANO, "volcano")).build()
    assert volcano["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "mnist"
    assert volcano["spec"]["schedulerName"] == "volcano"
    own = builder(template=template(schedulerName="mine")).with_gang(Gang(VOLCANO, "volcano"))
    assert own.build()["spec"]["schedulerName"] == "mine"


def test_the_kind_is_one_that_the_cluster_serves() -> None:
    both = Discovery([ApiResource(VOLCANO), ApiResource(COSCHEDULING)])
    assert gang_of(both) == Gang(COSCHEDULING)
    assert gang_of(Discovery([ApiResource(VOLCANO)])) == Gang(VOLCANO, "volcano")
    assert gang_of(Discovery([ApiResource(VOLCANO)]), scheduler="batch") == Gang(VOLCANO, "batch")
    assert gang_of(Discovery([])) is None


# --- security -------------------------------------------------------------------------------------


def namespace(level: str, **annotations: str) -> Obj:
    return {"labels": {ENFORCE: level}, "annotations": annotations}


def test_restricted_namespaces_get_what_their_policy_demands() -> None:
    own = {
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "c"}]}
    }
    spec = builder(template=own).with_policy(namespace("restricted")).build()["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_what_the_template_says_about_security_stays() -> None:
    main = {
        "name": "main",
        "securityContext": {"runAsUser": 7, "capabilities": {"add": ["NET_BIND_SERVICE"]}},
    }
    context = {"runAsNonRoot": False, "seccompProfile": {"type": "Unconfined"}}
    own = {"spec": {"containers": [main], "securityContext": context}}
    spec = builder(template=own).with_policy(namespace("restricted")).build()["spec"]
    assert spec["securityContext"] == context
    assert spec["containers"][0]["securityContext"] == {
        "runAsUser": 7,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    }


def test_no_user_is_chosen_where_openshift_chooses() -> None:
    ranged = namespace("restricted", **{"openshift.io/sa.scc.uid-range": "1000680000/10000"})
    context = builder().with_policy(ranged).build()["spec"]["securityContext"]
    assert "runAsUser" not in context
    assert context["runAsNonRoot"] is True


def test_baseline_namespaces_get_a_seccomp_profile() -> None:
    spec = builder().with_policy(namespace("baseline")).build()["spec"]
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert "securityContext" not in spec["containers"][0]


@pytest.mark.parametrize("metadata", [{}, namespace("privileged")])
def test_other_namespaces_get_nothing(metadata: Obj) -> None:
    assert "securityContext" not in builder().with_policy(metadata).build()["spec"]


def test_windows_has_none_of_this() -> None:
    own = template(os={"name": "windows"})
    spec = builder(template=own).with_policy(namespace("restricted")).build()["spec"]
    assert "securityContext" not in spec


# --- meshes ---------------------------------------------------------------------------------------


def test_meshes_leave_the_pods_alone_by_default() -> None:
    metadata = builder().build()["metadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"] == {
        "sidecar.istio.io/inject": "false",
        "linkerd.io/inject": "disabled",
    }


def test_sidecars_start_first_and_do_not_hold_the_job_open() -> None:
    metadata = builder(network={"mesh": "Enabled"}).build()["metadata"]
    assert "sidecar.istio.io/inject" not in metadata["labels"]
    assert metadata["annotations"] == {
        "proxy.istio.io/config": '{"holdApplicationUntilProxyStarts": true}',
        "sidecar.istio.io/nativeSidecar": "true",
        "config.alpha.linkerd.io/proxy-enable-native-sidecar": "true",
        "config.beta.linkerd.io/proxy-enable-native-sidecar": "true",
    }


def test_the_template_may_decide_about_sidecars_itself() -> None:
    own = {"metadata": {"annotations": {"linkerd.io/inject": "ingress"}}, **template()}
    metadata = builder(template=own).build()["metadata"]
    assert metadata["annotations"]["linkerd.io/inject"] == "ingress"


# --- nodes that fall silent -----------------------------------------------------------------------

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param([], {NOT_READY: 30, UNREACHABLE: 30}, id="none of its own"),
        pytest.param(
            [{"key": NOT_READY, "operator": "Exists", "tolerationSeconds": 5}],
            {NOT_READY: 5, UNREACHABLE: 30},
            id="one of its own",
        ),
        pytest.param([{"operator": "Exists"}], {None: None}, id="all tolerated"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists"}],
            {"gpu": None, NOT_READY: 30, UNREACHABLE: 30},
            id="others",
        ),
    ],
)
def test_dead_nodes_are_left_soon(own: list[Obj], expected: dict[str | None, int | None]) -> None:
    pod: Obj = {"tolerations": own} if own else {}
    leave_dead_nodes(pod)
    assert {t.get("key"): t.get("tolerationSeconds") for t in pod["tolerations"]} == expected
