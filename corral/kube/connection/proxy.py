"""Which HTTP proxy, if any, stands between the client and the server.

``proxy-url`` of the kubeconfig wins; otherwise HTTPS_PROXY, HTTP_PROXY and NO_PROXY count, with
the loopback host never proxied.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from corral.kube.connection.config import ClusterConfig, ConfigError

__all__ = ["proxy_for"]


def proxy_for(config: ClusterConfig, environ: Mapping[str, str]) -> str | None:
    """The proxy URL to use, or ``None``.

    Raises:
        ConfigError: the proxy is of a kind that is not spoken (SOCKS).
    """
    proxy = config.proxy_url or _from_environment(config.server, environ)
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise ConfigError(f"proxy {proxy!r} cannot be used: only http:// and https:// proxies can")
    return proxy


def _from_environment(server: str, environ: Mapping[str, str]) -> str:
    url = urlsplit(server)
    variable = f"{url.scheme}_proxy"
    proxy = environ.get(variable.upper()) or environ.get(variable) or ""
    if not proxy or _excluded(url.hostname or "", url.port, environ):
        return ""
    return proxy


def _excluded(host: str, port: int | None, environ: Mapping[str, str]) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    listed = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    return any(_matches(entry.strip().lower(), host, port, address) for entry in listed.split(","))


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _matches(entry: str, host: str, port: int | None, address: _Address | None) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    if address is not None:
        return _covers(entry, address) or entry == f"{host}:{port}"
    name, _, wanted_port = entry.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    domain = name.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not name.startswith((".", "*")))


def _covers(entry: str, address: _Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
