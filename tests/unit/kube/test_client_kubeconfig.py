from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.kube.connection.config import ClusterConfig, ConfigError, Impersonation
from corral.kube.connection.kubeconfig import in_cluster_config, load_config, load_kubeconfig


def write(path: Path, **fields: Any) -> str:
    document = {"apiVersion": "v1", "kind": "Config", **fields}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return str(path)


def entry(name: str, kind: str, **value: Any) -> dict[str, Any]:
    return {"name": name, kind: value}


def simple(path: Path, user: dict[str, Any], **cluster: Any) -> str:
    cluster = {"server": "https://one.test:6443", **cluster}
    return write(
        path,
        clusters=[{"name": "c", "cluster": cluster}],
        users=[{"name": "u", "user": user}],
        contexts=[entry("x", "context", cluster="c", user="u", namespace="team")],
        **{"current-context": "x"},
    )


def test_every_cluster_and_user_field_is_read(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    path = simple(
        tmp_path / "config",
        {
            "client-certificate-data": data,
            "client-key": "keys/me.key",
            "tokenFile": "/abs/token",
            "username": "me",
            "password": "secret",
            "as": "root",
            "as-uid": "7",
            "as-groups": ["a", "b"],
            "as-user-extra": {"scopes": ["view"]},
        },
        **{
            "server": "https://one.test:6443/prefix/",
            "certificate-authority": "ca.crt",
            "tls-server-name": "inner.test",
            "proxy-url": "http://proxy.test:3128",
            "disable-compression": True,
        },
    )
    assert load_config(path) == ClusterConfig(
        server="https://one.test:6443/prefix",
        namespace="team",
        context="x",
        ca_file=str(tmp_path / "ca.crt"),
        tls_server_name="inner.test",
        proxy_url="http://proxy.test:3128",
        disable_compression=True,
        cert_data=b"PEM",
        key_file=str(tmp_path / "keys" / "me.key"),
        token_file="/abs/token",
        username="me",
        password="secret",
        impersonation=Impersonation("root", "7", ("a", "b"), {"scopes": ("view",)}),
    )


def test_secrets_are_not_in_the_repr(tmp_path: Path) -> None:
    config = load_config(simple(tmp_path / "c", {"token": "hush", "password": "hush"}))
    assert config.token == "hush"
    assert "hush" not in repr(config)


def test_files_of_kubeconfig_are_merged_first_wins(tmp_path: Path) -> None:
    first = write(
        tmp_path / "one" / "config",
        clusters=[entry("c", "cluster", server="https://first.test", **{
            "certificate-authority": "ca.crt"})],
        users=[entry("u", "user", token="first")],
    )  # fmt: skip
    second = write(
        tmp_path / "two" / "config",
        clusters=[entry("c", "cluster", server="https://second.test")],
        users=[entry("u", "user", username="ignored"), entry("v", "user", token="second")],
        contexts=[
            entry("x", "context", cluster="c", user="u"),
            entry("y", "context", cluster="c", user="v"),
        ],
        **{"current-context": "x"},
    )
    third = write(tmp_path / "three", **{"current-context": "y"})
    missing = str(tmp_path / "missing")
    env = {"KUBECONFIG": os.pathsep.join([missing, first, "", second, third, first])}
    config = load_config(environ=env)
    assert config.server == "https://first.test"
    assert config.ca_file == str(tmp_path / "one" / "ca.crt")
    assert (config.token, config.username) == ("first", "")
    assert config.namespace == "default"
    assert load_config(context="y", environ=env).token == "second"


def test_home_is_the_default_then_the_pod(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match="no cluster configured: set KUBECONFIG"):
        load_config(environ=env)
    simple(tmp_path / ".kube" / "config", {"token": "home"})
    assert load_config(environ=env).token == "home"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no current context": ({}, "no current context in .*: run `kubectl config use-context"),
    "unknown context": (
        {"current-context": "gone", "contexts": [entry("x", "context", cluster="c")]},
        "context 'gone' is not in .*; known contexts: x",
    ),
    "unknown cluster": (
        {"current-context": "x", "contexts": [entry("x", "context", cluster="c", user="u")]},
        "context 'x' names cluster 'c', not in",
    ),
    "unknown user": (
        {
            "current-context": "x",
            "contexts": [entry("x", "context", cluster="c", user="u")],
            "clusters": [entry("c", "cluster", server="https://a.test")],
        },
        "context 'x' names user 'u', not in",
    ),
    "entry without a name": ({"clusters": [{"cluster": {}}]}, "an entry of clusters has no name"),
}


@pytest.mark.parametrize("case", BAD)
def test_unusable_files(tmp_path: Path, case: str) -> None:
    fields, message = BAD[case]
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(write(tmp_path / "config", **fields))
    assert "\n" not in str(caught.value)


BAD_ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "auth-provider": ({"auth-provider": {"name": "gcp"}}, {}, "use an exec plugin instead"),
    "groups without user": ({"as-groups": ["a"]}, {}, "set `as`"),
    "server without scheme": ({}, {"server": "one.test"}, "no http:// or https:// URL"),
    "insecure with a CA": (
        {},
        {"insecure-skip-tls-verify": True, "certificate-authority": "a"},
        "both set: remove one",
    ),
    "bad base64": ({}, {"certificate-authority-data": "a"}, "is no valid base64"),
    "exec without a command": (
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}},
        {},
        "has no command",
    ),
    "exec of an old version": (
        {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        {},
        "use client.authentication.k8s.io/v1 or",
    ),
    "exec v1 without a mode": (
        {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}},
        {},
        "interactiveMode '': use Never, IfAvailable, Always",
    ),
}


@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_unusable_entries(tmp_path: Path, case: str) -> None:
    user, cluster, message = BAD_ENTRIES[case]
    with pytest.raises(ConfigError, match=message):
        load_config(simple(tmp_path / "config", user, **cluster))


def test_broken_yaml_and_missing_file_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("a: [1\nb: }")
    for path, message in (("bad", "is no valid YAML"), ("none", "does not exist")):
        with pytest.raises(ConfigError, match=message) as caught:
            load_kubeconfig([tmp_path / path])
        assert "\n" not in str(caught.value)


def test_exec_plugin_is_read(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"CA")
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "bin/login",
        "args": ["--for", "me"],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
        "installHint": "get it",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    path = simple(
        tmp_path / "config",
        {"exec": spec},
        **{"certificate-authority": "ca.crt", "extensions": [extension]},
    )
    plugin = load_config(path).exec_plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin" / "login")
    assert (plugin.args, dict(plugin.env)) == (("--for", "me"), {"A": "1"})
    assert plugin.interactive_mode == "IfAvailable"
    assert plugin.cluster_info == {
        "server": "https://one.test:6443",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "config": {"audience": "x"},
    }


def test_a_token_switches_the_plugin_off(tmp_path: Path) -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    assert load_config(simple(tmp_path / "c", {"exec": spec, "token": "t"})).exec_plugin is None


def test_in_cluster(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/none"}
    with pytest.raises(ConfigError, match="no service account token at"):
        in_cluster_config(environ=env, directory=tmp_path)
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "here\n")):
        (tmp_path / name).write_text(text)
    config = in_cluster_config(environ=env, directory=tmp_path)
    assert config == ClusterConfig(
        server="https://[fd00::1]:443",
        namespace="here",
        ca_file=str(tmp_path / "ca.crt"),
        token_file=str(tmp_path / "token"),
    )
    with pytest.raises(ConfigError, match="not in a cluster"):
        in_cluster_config(environ={}, directory=tmp_path)
