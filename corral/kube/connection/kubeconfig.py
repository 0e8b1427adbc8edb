"""Read kubeconfig files and the in-cluster environment into a `ClusterConfig`.

Merging follows kubectl: the first file that names a cluster, user, context or the current context
wins, missing files of a ``KUBECONFIG`` list are skipped, relative paths are relative to the file
they stand in. Every problem is a one-line `ConfigError`.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from corral.kube.connection.config import ClusterConfig, ConfigError, ExecPlugin, Impersonation

__all__ = ["Kubeconfig", "in_cluster_config", "load_config", "load_kubeconfig"]

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
EXEC_API_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
SOCKET_EXTENSION = "corral.dev/socket"
"""Of a cluster: ``path`` of a socket of its API server on this machine."""
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The merged entries of one or more files; every path in them is absolute."""

    current_context: str = ""
    clusters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    users: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    contexts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    def resolve(self, context: str | None = None) -> ClusterConfig:
        """The configuration of one context (default: the current one).

        Raises:
            ConfigError: the context, or what it names, is missing or unusable.
        """
        name = context or self.current_context
        where = ", ".join(self.sources)
        if not name:
            raise ConfigError(
                f"no current context in {where}: run `kubectl config use-context NAME` "
                "or name a context"
            )
        entry = self.contexts.get(name)
        if entry is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"context {name!r} is not in {where}; known contexts: {known}")
        cluster_name, user_name = str(entry.get("cluster") or ""), str(entry.get("user") or "")
        cluster = self.clusters.get(cluster_name)
        if cluster is None:
            raise ConfigError(f"context {name!r} names cluster {cluster_name!r}, not in {where}")
        user = self.users.get(user_name) if user_name else {}
        if user is None:
            raise ConfigError(f"context {name!r} names user {user_name!r}, not in {where}")
        namespace = str(entry.get("namespace") or "default")
        return _build(cluster, user, namespace=namespace, context=name, user_name=user_name)


def load_config(
    path: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> ClusterConfig:
    """Find the cluster as kubectl does.

    The order is: the path given, ``KUBECONFIG``, ``~/.kube/config``, the service account of the
    pod this runs in.

    Raises:
        ConfigError: nothing was found, or what was found cannot be used.
    """
    env = os.environ if environ is None else environ
    if path is not None:
        return load_kubeconfig([path]).resolve(context)
    if env.get("KUBECONFIG"):
        return load_kubeconfig(env["KUBECONFIG"].split(os.pathsep)).resolve(context)
    home = Path(env.get("HOME") or Path.home()) / ".kube" / "config"
    if home.is_file():
        return load_kubeconfig([home]).resolve(context)
    if env.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_config(environ=env)
    raise ConfigError(
        f"no cluster configured: set KUBECONFIG, pass a kubeconfig file, or create {home}"
    )


def load_kubeconfig(paths: Sequence[str | os.PathLike[str]]) -> Kubeconfig:
    """Read and merge files, first one wins.

    Raises:
        ConfigError: none of the files exists, or one of them cannot be read or parsed.
    """
    wanted = list(dict.fromkeys(os.fspath(p) for p in paths if os.fspath(p)))
    current, sources = "", []
    merged: dict[str, dict[str, Mapping[str, Any]]] = {"clusters": {}, "users": {}, "contexts": {}}
    for path in wanted:
        document = _read(path)
        if document is None:
            continue
        sources.append(path)
        current = current or str(document.get("current-context") or "")
        base = Path(path).resolve().parent
        for section, entries in merged.items():
            for name, value in _entries(document, section, path):
                if name not in entries:
                    entries[name] = _absolute(value, section, base)
    if not sources:
        raise ConfigError(f"kubeconfig {', '.join(wanted)} does not exist: check KUBECONFIG")
    return Kubeconfig(
        current_context=current,
        clusters=merged["clusters"],
        users=merged["users"],
        contexts=merged["contexts"],
        sources=tuple(sources),
    )


def in_cluster_config(
    *,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] = SERVICE_ACCOUNT_DIR,
) -> ClusterConfig:
    """The configuration of a pod: its service account token (read again as it rotates) and CA.

    Raises:
        ConfigError: this process does not run in a pod with a service account.
    """
    env = os.environ if environ is None else environ
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"
        )
    root = Path(directory)
    token_file = root / "token"
    if not token_file.is_file():
        raise ConfigError(
            f"no service account token at {token_file}: "
            "set automountServiceAccountToken or give a kubeconfig"
        )
    ca_file = root / "ca.crt"
    namespace_file = root / "namespace"
    namespace = namespace_file.read_text().strip() if namespace_file.is_file() else ""
    host = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{host}:{port}",
        namespace=namespace or "default",
        ca_file=str(ca_file) if ca_file.is_file() else "",
        token_file=str(token_file),
    )


def _read(path: str) -> Mapping[str, Any] | None:
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as e:
        raise ConfigError(f"cannot read kubeconfig {path}: {e.strerror}") from e
    document = _parsed(text, path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} is not a mapping with clusters, users and contexts")
    return document


def _parsed(text: bytes, path: str) -> Any:
    """A document of JSON or YAML."""
    if text.startswith(b"{"):
        with suppress(orjson.JSONDecodeError):  # YAML may begin so too
            return orjson.loads(text)
    import yaml  # slow to load, and what is written by us is JSON

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as e:
        problem = " ".join(str(e).split())
        raise ConfigError(f"kubeconfig {path} is no valid YAML: {problem}") from e


def _entries(
    document: Mapping[str, Any], section: str, path: str
) -> list[tuple[str, Mapping[str, Any]]]:
    singular = section[:-1]
    out: list[tuple[str, Mapping[str, Any]]] = []
    for entry in document.get(section) or ():
        if not isinstance(entry, dict) or not entry.get("name"):
            raise ConfigError(f"kubeconfig {path}: an entry of {section} has no name")
        value = entry.get(singular) or {}
        if not isinstance(value, dict):
            raise ConfigError(f"kubeconfig {path}: {singular} {entry['name']!r} is not a mapping")
        out.append((str(entry["name"]), value))
    return out


_PATH_FIELDS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}


def _absolute(value: Mapping[str, Any], section: str, base: Path) -> Mapping[str, Any]:
    out = dict(value)
    for key in _PATH_FIELDS[section]:
        if out.get(key):
            out[key] = str(base / str(out[key]))
    plugin = out.get("exec")
    if section == "users" and isinstance(plugin, dict):
        command = str(plugin.get("command") or "")
        # A bare name is looked up on PATH; only what has a slash is relative to the file.
        if os.sep in command and not os.path.isabs(command):
            out["exec"] = {**plugin, "command": str(base / command)}
    return out


def _build(
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
    *,
    namespace: str,
    context: str,
    user_name: str,
) -> ClusterConfig:
    if user.get("auth-provider") and not user.get("exec"):
        raise ConfigError(
            f"user {user_name!r} uses auth-provider, which Kubernetes has removed: "
            "use an exec plugin instead"
        )
    token_auth = bool(user.get("token") or user.get("tokenFile"))
    return ClusterConfig(
        server=str(cluster.get("server") or ""),
        namespace=namespace,
        context=context,
        ca_file=str(cluster.get("certificate-authority") or ""),
        ca_data=_data(cluster, "certificate-authority-data"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy_url=str(cluster.get("proxy-url") or ""),
        socket=_socket(cluster),
        disable_compression=bool(cluster.get("disable-compression")),
        cert_file=str(user.get("client-certificate") or ""),
        cert_data=_data(user, "client-certificate-data"),
        key_file=str(user.get("client-key") or ""),
        key_data=_data(user, "client-key-data"),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        impersonation=_impersonation(user, user_name),
        # A token says who the caller wants to be; the plugin is then not run, as in kubectl.
        exec_plugin=None if token_auth else _exec_plugin(user, cluster, user_name),
    )


def _socket(cluster: Mapping[str, Any]) -> str:
    """Where the server's socket is, if it says so and this machine has it."""
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == SOCKET_EXTENSION:
            path = str((extension.get("extension") or {}).get("path") or "")
            return path if os.path.exists(path) else ""
    return ""


def _data(entry: Mapping[str, Any], key: str) -> bytes:
    value = entry.get(key)
    if not value:
        return b""
    try:
        return base64.b64decode(str(value), validate=False)
    except (binascii.Error, ValueError) as e:
        raise ConfigError(f"{key} is no valid base64: write the kubeconfig again") from e


def _impersonation(user: Mapping[str, Any], user_name: str) -> Impersonation | None:
    extra = {str(k): tuple(map(str, v)) for k, v in (user.get("as-user-extra") or {}).items()}
    groups = tuple(map(str, user.get("as-groups") or ()))
    name, uid = str(user.get("as") or ""), str(user.get("as-uid") or "")
    if not name:
        if uid or groups or extra:
            raise ConfigError(
                f"user {user_name!r} impersonates a group, uid or extra without a user: set `as`"
            )
        return None
    return Impersonation(user=name, uid=uid, groups=groups, extra=extra)


def _exec_plugin(
    user: Mapping[str, Any], cluster: Mapping[str, Any], user_name: str
) -> ExecPlugin | None:
    spec = user.get("exec")
    if not spec:
        return None
    version, command = str(spec.get("apiVersion") or ""), str(spec.get("command") or "")
    if not command:
        raise ConfigError(f"exec of user {user_name!r} has no command")
    if version not in EXEC_API_VERSIONS:
        raise ConfigError(
            f"exec of user {user_name!r} has apiVersion {version!r}: "
            f"use {' or '.join(EXEC_API_VERSIONS)}"
        )
    mode = str(spec.get("interactiveMode") or "")
    if not mode and version.endswith("/v1beta1"):
        mode = "IfAvailable"
    if mode not in INTERACTIVE_MODES:
        raise ConfigError(
            f"exec of user {user_name!r} has interactiveMode {mode!r}: "
            f"use {', '.join(INTERACTIVE_MODES)}"
        )
    return ExecPlugin(
        command=command,
        api_version=version,
        args=tuple(map(str, spec.get("args") or ())),
        env={str(e["name"]): str(e.get("value") or "") for e in spec.get("env") or ()},
        interactive_mode=mode,
        provide_cluster_info=bool(spec.get("provideClusterInfo")),
        install_hint=str(spec.get("installHint") or ""),
        cluster_info=_cluster_info(cluster),
    )


_INFO_FIELDS = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    info = {key: cluster[key] for key in _INFO_FIELDS if cluster.get(key)}
    ca_file = str(cluster.get("certificate-authority") or "")
    if ca_file and "certificate-authority-data" not in info and os.path.isfile(ca_file):
        info["certificate-authority-data"] = base64.b64encode(Path(ca_file).read_bytes()).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return info
