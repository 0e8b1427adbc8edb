from __future__ import annotations

import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from corral.kube.connection.config import ClusterConfig, ConfigError, ExecPlugin, Impersonation
from corral.kube.connection.credentials import (
    Credential,
    FileTokenSource,
    credential_source,
    impersonation_headers,
)
from corral.kube.connection.execplugin import ExecSource
from corral.kube.connection.proxy import proxy_for

V1 = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("one\n")
    source = FileTokenSource(str(path), clock=clock)
    assert (await source.current()).authorization == "Bearer one"
    path.write_text("two")
    clock.now += 59
    assert (await source.current()).authorization == "Bearer one"
    clock.now += 1
    assert (await source.current()).authorization == "Bearer two"


async def test_token_file_is_read_again_when_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = FileTokenSource(str(path), clock=Clock())
    refused = await source.current()
    assert not await source.renew(refused)
    path.write_text("two")
    assert await source.renew(refused)
    assert (await source.current()).authorization == "Bearer two"


async def test_last_token_outlives_a_missing_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("one")
    source = FileTokenSource(str(path), clock=clock)
    await source.current()
    path.unlink()
    clock.now += 100
    assert (await source.current()).authorization == "Bearer one"


async def test_token_file_that_never_was(tmp_path: Path) -> None:
    path = str(tmp_path / "token")
    with pytest.raises(ConfigError, match="cannot read token file"):
        await FileTokenSource(path).current()
    assert (await FileTokenSource(path, "spare").current()).authorization == "Bearer spare"


CHOICES: dict[str, tuple[dict[str, str], str]] = {
    "token": ({"token": "t"}, "Bearer t"),
    "basic": ({"username": "u", "password": "p:q"}, "Basic dTpwOnE="),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize("case", CHOICES)
async def test_choice_of_credential(case: str) -> None:
    fields, header = CHOICES[case]
    source = credential_source(ClusterConfig(server="https://a.test", **fields))  # type: ignore[arg-type]
    credential = await source.current()
    assert credential.authorization == header
    assert not await source.renew(credential)


def test_impersonation_headers() -> None:
    who = Impersonation("jane", "7", ("a", "b"), {"example.test/scope x": ("1", "2")})
    assert impersonation_headers(who) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.test%2Fscope%20x", "1"),
        ("Impersonate-Extra-example.test%2Fscope%20x", "2"),
    ]
    assert impersonation_headers(None) == []


# --- exec plugins --------------------------------------------------------------------------------

SCRIPT = f"""#!{sys.executable}
import json, os, sys
calls = os.environ["CALLS"]
with open(calls, "a") as f:
    info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    f.write(json.dumps({{"args": sys.argv[1:], "info": info,
        "stdin": sys.stdin.isatty()}}) + "\\n")
count = len(open(calls).readlines())
sys.stdout.write(os.environ["OUTPUT"].replace("COUNT", str(count)))
sys.exit(int(os.environ.get("CODE", "0")))
"""


class Plugin:
    """A plugin script in a folder, and what it was called with."""

    def __init__(self, folder: Path, status: Any = None, *, raw: str = "", code: int = 0) -> None:
        self.script, self.calls_file = folder / "login", folder / "calls"
        self.script.write_text(SCRIPT)
        self.script.chmod(self.script.stat().st_mode | stat.S_IXUSR)
        document = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
        self.env = {
            "CALLS": str(self.calls_file),
            "OUTPUT": raw or json.dumps(document),
            "CODE": str(code),
        }

    def spec(self, **fields: Any) -> ExecPlugin:
        defaults = {"api_version": V1, "env": self.env, "interactive_mode": "Never"}
        return ExecPlugin(str(self.script), **{**defaults, **fields})

    @property
    def calls(self) -> list[Any]:
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]


def source(spec: ExecPlugin, **options: Any) -> ExecSource:
    return ExecSource(spec, environ={"PATH": os.environ["PATH"]}, **options)


async def test_plugin_gets_args_and_cluster_info(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, {"token": "t"})
    spec = plugin.spec(
        args=("a", "b c"), provide_cluster_info=True, cluster_info={"server": "https://a.test"}
    )
    assert (await source(spec).current()).authorization == "Bearer t"
    [call] = plugin.calls
    assert call["args"] == ["a", "b c"]
    assert call["info"] == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False, "cluster": {"server": "https://a.test"}},
    }


async def test_plugin_is_asked_again_only_after_expiry(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    status = {"token": "t-COUNT", "expirationTimestamp": "2026-01-01T01:00:00Z"}
    plugin = Plugin(tmp_path, status)
    times = [now]
    login = source(plugin.spec(), clock=lambda: times[-1])
    for _ in range(3):
        assert (await login.current()).authorization == "Bearer t-1"
    times.append(now + timedelta(hours=1))
    assert (await login.current()).authorization == "Bearer t-2"


async def test_refused_credential_is_renewed_once(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, {"token": "t-COUNT"})
    login = source(plugin.spec())
    refused = await login.current()
    assert await login.renew(refused)
    assert await login.renew(refused), "a second request with the old credential is to try again"
    assert (await login.current()).authorization == "Bearer t-2"
    assert len(plugin.calls) == 2


async def test_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    credential = await source(Plugin(tmp_path, status).spec()).current()
    assert credential == Credential("", cert_data=b"CERT", key_data=b"KEY")


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "exit code": ({"status": {"token": "t"}, "code": 3}, {}, "failed with exit code 3"),
    "no JSON": ({"raw": "hello"}, {}, "printed no valid JSON"),
    "other kind": ({"raw": '{"kind": "Pod"}'}, {}, "is no ExecCredential"),
    "other version": (
        {"status": {"token": "t"}},
        {"api_version": V1 + "beta1"},
        f"is configured to use API version {V1}beta1, plugin returned version {V1}",
    ),
    "no status": ({}, {}, "did not return a status field"),
    "empty status": ({"status": {"token": ""}}, {}, "did not return a token or cert/key pair"),
    "half a pair": (
        {"status": {"clientKeyData": "k"}},
        {},
        "returned only certificate or key, not both",
    ),
    "bad time": (
        {"status": {"token": "t", "expirationTimestamp": "soon"}},
        {},
        "expirationTimestamp that is no time",
    ),
    "no terminal": (
        {"status": {"token": "t"}},
        {"interactive_mode": "Always"},
        "needs a terminal",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_plugin_problems_are_one_line(tmp_path: Path, case: str) -> None:
    script, spec, message = BAD[case]
    plugin = Plugin(tmp_path, **script)
    with pytest.raises(ConfigError, match=message) as caught:
        await source(plugin.spec(**spec), is_terminal=lambda: False).current()
    assert "\n" not in str(caught.value)


async def test_missing_plugin_gives_the_hint() -> None:
    spec = ExecPlugin("/none/login", V1, interactive_mode="Never", install_hint="get it\nhere")
    with pytest.raises(ConfigError, match=r"cannot run exec plugin /none/login: .*: get it here"):
        await source(spec).current()


# --- proxies -------------------------------------------------------------------------------------

PROXIES: dict[str, tuple[str, dict[str, str], str | None]] = {
    "none": ("https://a.test", {}, None),
    "https": ("https://a.test", {"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "x"}, "http://p:1"),
    "lower case, no scheme": ("http://a.test", {"http_proxy": "p:1"}, "http://p:1"),
    "loopback": ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, None),
    "localhost": ("https://localhost", {"HTTPS_PROXY": "http://p:1"}, None),
    "network": ("https://10.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, None),
    "other network": (
        "https://11.1.2.3",
        {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"},
        "http://p",
    ),
    "domain": ("https://a.x.test", {"HTTPS_PROXY": "http://p", "NO_PROXY": "b, x.test"}, None),
    "domain itself": ("https://x.test", {"HTTPS_PROXY": "http://p", "NO_PROXY": "x.test"}, None),
    "subdomains only": (
        "https://x.test",
        {"HTTPS_PROXY": "http://p", "NO_PROXY": ".x.test"},
        "http://p",
    ),
    "port": (
        "https://x.test:6443",
        {"HTTPS_PROXY": "http://p", "NO_PROXY": "x.test:443"},
        "http://p",
    ),
    "all": ("https://x.test", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, None),
}


@pytest.mark.parametrize("case", PROXIES)
def test_proxy_from_the_environment(case: str) -> None:
    server, environ, wanted = PROXIES[case]
    assert proxy_for(ClusterConfig(server=server), environ) == wanted


def test_proxy_of_the_kubeconfig_wins_and_socks_is_refused() -> None:
    config = ClusterConfig(server="https://127.0.0.1", proxy_url="http://mine:3128")
    assert proxy_for(config, {"HTTPS_PROXY": "http://other"}) == "http://mine:3128"
    config = ClusterConfig(server="https://a.test", proxy_url="socks5://mine:1080")
    with pytest.raises(ConfigError, match="only http:// and https://"):
        proxy_for(config, {})
