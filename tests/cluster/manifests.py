"""Small objects for the cases."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def obj(api_version: str, kind: str, name: str, **rest: Any) -> Obj:
    labels = rest.pop("labels", None)
    metadata: Obj = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def configmap(name: str = "settings", labels: dict[str, str] | None = None, **data: str) -> Obj:
    return obj("v1", "ConfigMap", name, labels=labels, data=data)


def pod_template(app: str, image: str = "example.test/web:1") -> Obj:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def deployment(name: str = "web", *, image: str = "example.test/web:1", replicas: int = 0) -> Obj:
    return obj(
        "apps/v1",
        "Deployment",
        name,
        labels={"app": name},
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template(name, image),
        },
    )


def service(name: str = "web") -> Obj:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    return obj("v1", "Service", name, spec=spec)


def pod(name: str = "one", **labels: str) -> Obj:
    spec = {"containers": [{"name": "main", "image": "example.test/web:1"}]}
    return obj("v1", "Pod", name, labels=labels, spec=spec)


def cronjob(name: str = "nightly") -> Obj:
    template = pod_template(name)
    template["spec"]["restartPolicy"] = "Never"
    spec = {
        "schedule": "0 3 * * *",
        "suspend": True,
        "jobTemplate": {"spec": {"template": template}},
    }
    return obj("batch/v1", "CronJob", name, spec=spec)


def widget_definition(group: str) -> Obj:
    """A definition with a status, a scale, columns, a short name and a category."""
    schema = {
        "type": "object",
        "description": "A widget of the tests.",
        "properties": {
            "spec": {
                "type": "object",
                "description": "What the widget should be.",
                "required": ["size"],
                "properties": {
                    "size": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How big it is.",
                    },
                    "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "replicas": {"type": "integer"},
                    "parts": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}},
                        },
                    },
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "replicas": {"type": "integer"},
                    "phase": {"type": "string"},
                    "conditions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "type": {"type": "string"},
                                "status": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "additionalPrinterColumns": columns,
    }
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
        "categories": ["gadgets"],
    }
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"widgets.{group}", spec=spec)


def widget(group: str, name: str = "w", **spec: Any) -> Obj:
    return obj(f"{group}/v1", "Widget", name, spec=spec)
