from __future__ import annotations

from typing import Any

import yaml
from typer.testing import CliRunner

from corral.cli.main import app
from corral.gateway.manifests import NAME, GatewayInstall, gateway_objects
from corral.kube.connection.kubeconfig import load_kubeconfig

OBJECTS = gateway_objects(GatewayInstall(namespace="here", image="i:1"))


def found(kind: str) -> dict[str, Any]:
    [only] = [obj for obj in OBJECTS if obj["kind"] == kind]
    return only


def test_it_has_no_rights_at_all() -> None:
    kinds = [obj["kind"] for obj in OBJECTS]
    assert kinds == ["ServiceAccount", "ConfigMap", "Service", "Deployment"]
    assert found("ServiceAccount")["automountServiceAccountToken"] is False
    pod = found("Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == NAME


def test_its_configuration_has_no_credential(tmp_path: Any) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(found("ConfigMap")["data"]["kubeconfig"])
    config = load_kubeconfig([path]).resolve()
    assert config.server == "https://kubernetes.default.svc"
    assert (config.token, config.token_file, config.cert_file) == ("", "", "")


def test_the_service_leads_to_the_ports() -> None:
    container = found("Deployment")["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in found("Service")["spec"]["ports"]} == ports


def test_its_arguments_are_those_of_the_command() -> None:
    container = found("Deployment")["spec"]["template"]["spec"]["containers"][0]
    said = CliRunner().invoke(app, [*container["command"][1:], *container["args"], "--help"])
    assert said.exit_code == 0, said.output


def test_an_installation_has_it() -> None:
    said = CliRunner().invoke(app, ["install", "--print", "--namespace", "mine", "--image", "i:2"])
    assert said.exit_code == 0, said.output
    *objects, policy = yaml.safe_load_all(said.stdout)
    assert objects[-4:] == gateway_objects(GatewayInstall(namespace="mine", image="i:2"))
    assert (policy["kind"], policy["metadata"]["name"]) == ("NetworkPolicy", "corral-gateway")
    ports = policy["spec"]["ingress"][0]["ports"]
    container = objects[-1]["spec"]["template"]["spec"]["containers"][0]
    assert [port["port"] for port in ports] == [p["containerPort"] for p in container["ports"]]
