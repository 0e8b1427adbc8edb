"""Defaults of a pod's spec, wherever one stands: in a Pod or in a template."""

from __future__ import annotations

from corral.kube.types import Obj

from .images import pull_policy
from .quantity import round_up_to_milli
from .volumes import default_volume

__all__ = ["default_pod_spec", "default_template"]


def default_template(template: Obj | None) -> None:
    """Default the pod template of a workload."""
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Obj) -> None:
    get = spec.get
    account = get("serviceAccountName") or get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if not get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if get("securityContext") is None:
        spec["securityContext"] = {}
    if get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    for volume in get("volumes") or ():
        default_volume(volume)
    for container in get("containers") or ():
        _container(container)
    for container in get("initContainers") or ():
        _container(container)
    for container in get("ephemeralContainers") or ():
        _container(container)
    if "overhead" in spec:
        round_up_to_milli(spec["overhead"])
    if "resources" in spec:
        _resources(spec["resources"])


def _container(container: Obj) -> None:
    get = container.get
    if not get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(get("image") or "")
    if not get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = get("resources")
    if resources:
        _resources(resources)
    for port in get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in get("env") or ():
        if "valueFrom" in variable:
            _value_from(variable["valueFrom"])
    if "livenessProbe" in container:
        _probe(container["livenessProbe"])
    if "readinessProbe" in container:
        _probe(container["readinessProbe"])
    if "startupProbe" in container:
        _probe(container["startupProbe"])
    if "lifecycle" in container:
        for hook in ("postStart", "preStop"):
            handler = container["lifecycle"].get(hook)
            if handler is not None and "httpGet" in handler:
                _http_get(handler["httpGet"])


def _resources(resources: Obj) -> None:
    round_up_to_milli(resources.get("limits"))
    round_up_to_milli(resources.get("requests"))


def _value_from(source: Obj) -> None:
    field = source.get("fieldRef")
    if field is not None and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _probe(probe: Obj) -> None:
    if not probe.get("timeoutSeconds"):
        probe["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        probe["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        probe["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    if "httpGet" in probe:
        _http_get(probe["httpGet"])
    if "grpc" in probe:
        grpc = probe["grpc"]
        grpc["service"] = grpc.get("service") or ""


def _http_get(action: Obj) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"
