"""PodSecurity. The messages were read from kube-apiserver 1.37.1 and its own test fixtures."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.admission.podsecurity.plugin import (
    Level,
    PodSecurity,
    evaluate,
    policy,
)
from corral.kube.errors import Forbidden, Invalid

PREFIX = "pod-security.kubernetes.io/"
GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
    "runAsNonRoot": True,
}
PLAIN_VIOLATIONS = (
    'allowPrivilegeEscalation != false (container "c" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" '
    'must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or '
    'container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or '
    'container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)


def namespace(**labels):
    prefixed = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team", **prefixed}},
        "spec": {"finalizers": ["kubernetes"]},
    }


@pytest.fixture
def secured(world):
    world.plugins = [PodSecurity(world.store)]
    return world


async def test_no_labels_allow_everything(secured, pod):
    await secured.create(pod("p", {"hostNetwork": True}, securityContext={"privileged": True}))
    assert secured.warnings == []


async def test_enforce(secured, pod):
    await secured.put(namespace(enforce="restricted"))
    with pytest.raises(Forbidden) as refused:
        await secured.create(pod("p"))
    assert refused.value.message == (
        f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {PLAIN_VIOLATIONS}'
    )
    await secured.create(pod("good", securityContext=GOOD))


async def test_warn_for_pods_and_templates(secured, pod):
    await secured.put(namespace(warn="restricted", warn_version="v1.37"))
    await secured.create(pod("p"))
    text = f'would violate PodSecurity "restricted:v1.37": {PLAIN_VIOLATIONS}'
    assert secured.warnings == [text]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    await secured.create(deployment)
    assert secured.warnings == [text]
    job_template = {"spec": {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": job_template},
    }
    await secured.create(cron)
    assert secured.warnings == [text]


async def test_enforce_of_templates_only_warns(secured, pod):
    await secured.put(namespace(enforce="baseline"))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x", {"hostPID": True})["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await secured.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    )
    assert secured.warnings == [
        'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    ]


async def test_updates_are_checked_when_images_change(secured, pod):
    await secured.put(namespace(enforce="restricted"))
    plugin = secured.plugins[0]
    await plugin.validate(secured.request("UPDATE", pod("p"), pod("p")))
    with pytest.raises(Forbidden):
        await plugin.validate(secured.request("UPDATE", pod("p", image="new"), pod("p")))
    await plugin.validate(
        secured.request("UPDATE", pod("p", image="new"), pod("p"), subresource="status")
    )
    debug = pod("p", {"ephemeralContainers": [{"name": "d", "image": "x"}]})
    with pytest.raises(Forbidden):
        await plugin.validate(
            secured.request("UPDATE", debug, pod("p"), subresource="ephemeralcontainers")
        )


async def test_wrong_labels(secured):
    wrong = namespace(enforce="wrong", warn_version="v2")
    with pytest.raises(Invalid) as refused:
        await secured.update(wrong)
    one = (
        f'metadata.labels[{PREFIX}enforce]: Invalid value: "wrong": must be one of privileged, '
        "baseline, restricted"
    )
    two = f'metadata.labels[{PREFIX}warn-version]: Invalid value: "v2": must be "latest" or "v1.x"'
    assert refused.value.message == f'Namespace "team" is invalid: [{one}, {two}]'


async def test_raising_the_level_warns_about_pods_that_are_there(secured, pod):
    for name in ("b", "a", "good"):
        await secured.create(pod(name, securityContext=GOOD if name == "good" else {}))
    await secured.update(namespace(enforce="restricted"))
    assert secured.warnings == [
        'existing pods in namespace "team" violate the new PodSecurity enforce level '
        '"restricted:latest"',
        "a (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, "
        "runAsNonRoot != true, seccompProfile",
    ]
    await secured.update(namespace(enforce="baseline"))
    assert secured.warnings == []


@pytest.mark.parametrize(
    ("labels", "enforce", "warn"),
    [
        pytest.param({}, "privileged:latest", "privileged:latest", id="none"),
        pytest.param(
            {"enforce": "baseline", "enforce-version": "v1.22"},
            "baseline:v1.22",
            "baseline:v1.22",
            id="warn follows enforce",
        ),
        pytest.param(
            {"enforce": "restricted", "warn": "baseline"},
            "restricted:latest",
            "baseline:latest",
            id="own warn",
        ),
        pytest.param(
            {"enforce": "wrong"}, "restricted:latest", "privileged:latest", id="wrong enforce"
        ),
        pytest.param({"warn": "wrong"}, "privileged:latest", "privileged:latest", id="wrong warn"),
    ],
)
def test_policy(labels, enforce, warn):
    found = policy({PREFIX + key: value for key, value in labels.items()})
    assert (str(found.enforce), str(found.warn)) == (enforce, warn)


def container(**context):
    return {"containers": [{"name": "c", "securityContext": context}]}


CASES = {
    "privileged": (
        container(privileged=True),
        ("privileged", 'container "c" must not set securityContext.privileged=true'),
    ),
    "capabilities": (
        container(capabilities={"add": ["SYS_ADMIN", "KILL", "NET_RAW"]}),
        (
            "non-default capabilities",
            'container "c" must not include "NET_RAW", "SYS_ADMIN" in '
            "securityContext.capabilities.add",
        ),
    ),
    "host namespaces": (
        {"hostNetwork": True, "hostIPC": True},
        ("host namespaces", "hostNetwork=true, hostIPC=true"),
    ),
    "host paths": (
        {"volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "hostPath": {}}]},
        ("hostPath volumes", 'volumes "a", "b"'),
    ),
    "host ports": (
        {
            "containers": [
                {"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 443}]},
                {"name": "b", "ports": [{"hostPort": 80}]},
            ]
        },
        ("hostPort", 'containers "a", "b" use hostPorts 443, 80'),
    ),
    "probe hosts": (
        {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}}]},
        ("probe or lifecycle host", 'container "c" uses probe or lifecycle host "h"'),
    ),
    "proc mount": (
        container(procMount="Unmasked"),
        ("procMount", 'container "c" must not set securityContext.procMount to "Unmasked"'),
    ),
    "selinux": (
        {"securityContext": {"seLinuxOptions": {"type": "t", "user": "u", "role": "r"}}},
        (
            "seLinuxOptions",
            'pod set forbidden securityContext.seLinuxOptions: type "t"; user may not be set; '
            "role may not be set",
        ),
    ),
    "seccomp": (
        {
            "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            **container(seccompProfile={"type": "Unconfined"}),
        },
        (
            "seccompProfile",
            'pod and container "c" must not set securityContext.seccompProfile.type to '
            '"Unconfined"',
        ),
    ),
    "sysctls": (
        {"securityContext": {"sysctls": [{"name": "a"}, {"name": "net.ipv4.tcp_rmem"}]}},
        ("forbidden sysctls", "a"),
    ),
    "windows": (
        container(windowsOptions={"hostProcess": True}),
        (
            "hostProcess",
            'container "c" must not set securityContext.windowsOptions.hostProcess=true',
        ),
    ),
    "apparmor": (
        container(appArmorProfile={"type": "Unconfined"}),
        (
            "forbidden AppArmor profile",
            'container "c" must not set AppArmor profile type to "Unconfined"',
        ),
    ),
}


@pytest.mark.parametrize(("spec", "finding"), CASES.values(), ids=CASES)
def test_baseline_checks(spec, finding):
    assert evaluate(Level("baseline"), {}, spec) == [finding]


def test_apparmor_annotations():
    key = "container.apparmor.security.beta.kubernetes.io/c"
    meta = {"annotations": {key: "unconfined"}}
    assert evaluate(Level("baseline"), meta, {}) == [
        (
            "forbidden AppArmor profile",
            f'annotation must not set AppArmor profile type to "{key}="unconfined""',
        )
    ]


RESTRICTED = {
    "volumes": (
        {"volumes": [{"name": "n", "nfs": {}}, {"name": "h", "hostPath": {}}]},
        (
            "restricted volume types",
            'volumes "n", "h" use restricted volume types "hostPath", "nfs"',
        ),
    ),
    "root user": (
        {"securityContext": {"runAsUser": 0}},
        ("runAsUser=0", "pod must not set runAsUser=0"),
    ),
    "root allowed": (
        {"securityContext": {"runAsNonRoot": False}},
        ("runAsNonRoot != true", "pod must not set securityContext.runAsNonRoot=false"),
    ),
    "added capability": (
        container(**{**GOOD, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}),
        (
            "unrestricted capabilities",
            'container "c" must not include "CHOWN" in securityContext.capabilities.add',
        ),
    ),
}


@pytest.mark.parametrize(("spec", "finding"), RESTRICTED.values(), ids=RESTRICTED)
def test_restricted_checks(spec, finding):
    assert evaluate(Level("restricted"), {}, spec) == [finding]


@pytest.mark.parametrize(
    ("minor", "reasons"),
    [
        (7, ["runAsNonRoot != true"]),
        (8, ["allowPrivilegeEscalation != false", "runAsNonRoot != true"]),
        (20, ["allowPrivilegeEscalation != false", "runAsNonRoot != true", "seccompProfile"]),
    ],
)
def test_versions_bring_checks(minor, reasons):
    found = evaluate(Level("restricted", minor), {}, {"containers": [{"name": "c"}]})
    assert [reason for reason, _ in found] == reasons


def test_user_namespaces_and_windows_relax():
    own_users = {"hostUsers": False, "containers": [{"name": "c", "securityContext": {**GOOD}}]}
    del own_users["containers"][0]["securityContext"]["runAsNonRoot"]
    assert evaluate(Level("restricted"), {}, own_users) == []
    assert len(evaluate(Level("restricted", 34), {}, own_users)) == 1
    windows = {"os": {"name": "windows"}, **container(runAsNonRoot=True)}
    assert evaluate(Level("restricted"), {}, windows) == []
