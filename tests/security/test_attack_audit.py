"""What an attacker leaves behind in the audit log."""

from __future__ import annotations

import base64
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.backends.base import Backend
from tests.backends.embedded import EmbeddedBackend
from tests.cluster.objects import eventually

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/readyz*"]},
        {"level": "Metadata", "resources": [{"resources": ["secrets"]}]},
        {"level": "RequestResponse", "omitManagedFields": True},
    ],
}


class Audited(EmbeddedBackend):
    """Our server with an audit log."""

    def _part(self, name: str, *options: str) -> None:
        policy = self.folder / "policy.yaml"
        policy.write_text(yaml.safe_dump(POLICY))
        more = ("--audit-policy-file", str(policy), "--audit-log-path", str(self.log))
        super()._part(name, *options, *more)

    @property
    def log(self) -> Path:
        return self.folder / "audit" / "audit.log"

    def events(self, **wanted: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [e for e in lines if all(e.get(key) == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    backend = Audited(tmp_path_factory.mktemp("audited"), controllers=False)
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()


def last(backend: Audited, **wanted: str) -> dict[str, Any]:
    return eventually(lambda: backend.events(**wanted))[-1]


def secret(name: str) -> dict[str, Any]:
    metadata = {"name": name}
    data = {"password": "hunter2"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


@pytest.mark.attack(
    "audit",
    "reads a Secret without the right to",
    "the log says who tried and failed",
)
def test_a_forbidden_read_is_recorded(audited: Audited) -> None:
    where = "/api/v1/namespaces/default/secrets/other"
    assert audited.request("GET", where, token="nobody-token").code == 403
    event = last(audited, requestURI=where)
    assert event["user"]["username"] == "nobody"
    assert event["responseStatus"]["code"] == 403
    assert event["responseStatus"]["reason"] == "Forbidden"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert event["objectRef"] == {
        "resource": "secrets", "namespace": "default", "name": "other", "apiVersion": "v1",
    }  # fmt: skip


@pytest.mark.attack("audit", "tries a forged token", "the attempt is recorded without the token")
def test_a_forged_token_is_recorded_and_not_kept(audited: Audited) -> None:
    where = "/api/v1/namespaces/default/pods"
    assert audited.request("GET", where, token="forged-token-of-mine").code == 401
    assert last(audited, requestURI=where)["responseStatus"]["code"] == 401
    assert "forged-token-of-mine" not in audited.log.read_text()


@pytest.mark.attack(
    "audit", "acts in another user's name", "the log has the real caller beside the other name"
)
def test_impersonation_is_recorded(audited: Audited) -> None:
    where = "/api/v1/namespaces/default/configmaps"
    headers = {"Impersonate-User": "carol"}
    assert audited.request("GET", where, headers=headers).code == 403
    event = last(audited, requestURI=where)
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"]["username"] == "carol"


@pytest.mark.attack(
    "audit", "reads another's passwords in the audit log", "Secrets are recorded without contents"
)
def test_contents_of_secrets_are_not_recorded(audited: Audited) -> None:
    where = "/api/v1/namespaces/default/secrets"
    assert audited.request("POST", where, secret("kept")).code == 201
    event = last(audited, requestURI=where, verb="create")
    assert event["level"] == "Metadata"
    assert "requestObject" not in event
    assert "hunter2" not in audited.log.read_text()


@pytest.mark.attack(
    "audit", "changes an object and denies it", "the log has what was sent and what was answered"
)
def test_requests_and_answers_are_recorded(audited: Audited) -> None:
    where = "/api/v1/namespaces/default/configmaps"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "b"},
    }
    reply = audited.request("POST", where, config, headers={"Audit-ID": "of-my-own"})
    assert reply.code == 201
    event = last(audited, auditID="of-my-own")
    assert event["requestObject"]["data"] == {"a": "b"}
    assert event["responseObject"]["metadata"]["uid"]
    assert "managedFields" not in event["responseObject"]["metadata"]


@pytest.mark.attack(
    "audit", "breaks lines of the log by what it sends", "every line is one JSON document"
)
def test_nothing_breaks_a_line(audited: Audited) -> None:
    agent = '"}\\u000a\t' + "y" * 5000
    where = "/api/v1/namespaces/default/pods?labelSelector=a%0Ab"
    headers = {"User-Agent": agent, "Audit-ID": "z" * 500}
    audited.request("GET", where, headers=headers)
    event = last(audited, requestURI=where)
    assert len(event["userAgent"]) == 1024
    assert len(event["auditID"]) == 36
    assert event["userAgent"].startswith('"}\\u000a')


@pytest.mark.attack(
    "audit",
    "sends headers whose bytes are no text, so that no record can be written of what it does",
    "the record has replacement characters",
)
@pytest.mark.parametrize(
    "header",
    [b"User-Agent: a\xffb", b"Audit-ID: a\xffb", b"Impersonate-Extra-a: a\xffb"],
    ids=["agent", "id", "extra"],
)
def test_bytes_that_are_no_text(audited: Audited, header: bytes) -> None:
    name = f"bytes-{header[:4].decode().lower()}"
    where = f"/api/v1/namespaces/default/configmaps?fieldManager={name}"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    body = json.dumps(config).encode()
    head = [
        f"POST {where} HTTP/1.1", "Host: server", "Connection: close",
        f"Authorization: Bearer {audited.token}", "Impersonate-User: admin",
        "Impersonate-Group: system:masters", "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]  # fmt: skip
    answer = spoken(audited, "\r\n".join(head).encode() + b"\r\n" + header + b"\r\n\r\n" + body)
    assert answer.startswith(b"HTTP/1.1 201"), answer[:300]
    event = last(audited, requestURI=where)
    assert event["responseStatus"]["code"] == 201
    assert event["requestObject"]["metadata"]["name"] == name


def spoken(backend: Audited, request: bytes) -> bytes:
    """What the server answers to these very bytes, until it closes the connection."""
    server = urlsplit(backend.server)
    with (
        socket.create_connection((server.hostname, server.port), timeout=10) as plain,
        backend.tls().wrap_socket(plain, server_hostname=server.hostname) as wire,
    ):
        wire.sendall(request)
        pieces = []
        while piece := wire.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.attack(
    "audit",
    "changes an object by a body that is no plain JSON: YAML, protobuf, odd escapes, deep nesting",
    "the record has the body as it was sent",
)
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/yaml", b"{kind: ConfigMap, apiVersion: v1, metadata: {name: as-NAME}}"),
        (
            "application/json",
            b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"as-NAME"},"data":'
            b'{"a":"\\ud800"}}',
        ),
        (
            "application/json",
            b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"as-NAME"},"other":'
            + b"[" * 500 + b"]" * 500 + b"}",
        ),
        (
            "application/vnd.kubernetes.protobuf",
            b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0b\x0a\x09\x0a\x07as-NAME",
        ),
    ],
    ids=["yaml", "escapes", "deep", "protobuf"],
)  # fmt: skip
def test_bodies_are_recorded_as_they_were_sent(
    audited: Audited, content_type: str, body: bytes
) -> None:
    name = f"{len(body):04x}"
    sent = body.replace(b"NAME", name.encode())
    where = f"/api/v1/namespaces/default/configmaps?fieldManager=as-{name}"
    reply = audited.request("POST", where, sent, content_type=content_type)
    assert reply.code == 201, reply.body
    event = last(audited, requestURI=where)
    assert event["responseObject"]["metadata"]["name"] == f"as-{name}"
    found = event["requestObject"]
    kept = found["text"].encode() if "text" in found else base64.b64decode(found["base64"])
    assert kept == sent
    assert found["bytes"] == len(sent)


@pytest.mark.attack(
    "audit", "floods the log with health checks", "what the policy leaves out is not written"
)
def test_what_is_left_out_is_not_written(audited: Audited) -> None:
    before = len(audited.events())
    for _ in range(20):
        assert audited.request("GET", "/readyz").code == 200
    assert len(audited.events()) == before


@pytest.mark.attack("audit", "reads the log as another local user", "the file is its owner's alone")
def test_the_log_is_private(audited: Audited) -> None:
    assert audited.log.stat().st_mode & 0o077 == 0


def test_a_bad_policy_is_told_at_the_start(tmp_path: Path) -> None:
    import subprocess

    bad = tmp_path / "policy.yaml"
    bad.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Some}]\n")
    command = [
        sys.executable, "-m", "corral.cli.main", "apiserver", "--data-dir", str(tmp_path / "data"),
        "--port", "0", "--audit-policy-file", str(bad),
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "rules[0].level: must be one of" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_a_policy_there_is_no_log(backend: Backend) -> None:
    assert not list(backend.folder.rglob("audit.log"))
