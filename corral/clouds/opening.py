"""A provider from plain words: what an object's spec and a Secret hold.

- gcp: ``project``; ``network``, ``subnetwork``, ``externalIP``, ``endpoint``. Secret:
  ``credentials.json``.
- aws: ``region``; ``subnets``, ``securityGroups``, ``keyName``, ``rootDevice``, ``externalIP``,
  ``endpoint``, ``advisor``. Secret: ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``,
  ``AWS_SESSION_TOKEN``.
- azure: ``subscription``, ``resourceGroup``, ``subnet``; ``securityGroup``, ``externalIP``,
  ``endpoint``, ``prices``, ``authority``. Secret: ``AZURE_TENANT_ID``, ``AZURE_CLIENT_ID``,
  ``AZURE_CLIENT_SECRET``.

Without credentials the identity of the machine is used, from ``metadata`` (gcp, azure) or as boto3
finds it. ``onDemand`` has prices on demand by machine type (gcp, aws). Local VMs are opened with
`corral.clouds.local`, since what they run is known only to whoever runs the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from corral.clouds.errors import AccountRefused, BadRequest, Scope
from corral.egress.policy import EgressPolicy

if TYPE_CHECKING:
    from corral.clouds.base import CloudProvider

__all__ = ["open_provider"]


class _Options:
    """Options, each read once; what nobody read is a mistake."""

    def __init__(self, cloud: str, values: Mapping[str, Any]) -> None:
        self._cloud = cloud
        self._left = {key: value for key, value in values.items() if value is not None}

    def need(self, name: str) -> str:
        value = self._left.pop(name, "")
        if not isinstance(value, str) or not value:
            raise BadRequest(f"{self._cloud} needs {name}")
        return value

    def take(self, name: str, default: Any) -> Any:
        return self._left.pop(name, default)

    def done(self) -> None:
        if self._left:
            raise BadRequest(f"{self._cloud} knows no {', '.join(sorted(self._left))}")


def open_provider(
    cloud: str,
    options: Mapping[str, Any],
    credentials: Mapping[str, str],
    *,
    egress: EgressPolicy | None = None,
    own_identity: bool = True,
) -> CloudProvider:
    """The provider of one account.

    Args:
        cloud: its name.
        options: how it is opened.
        credentials: what the Secret holds.
        egress: what may be called of what credentials name; None: public servers.
        own_identity: whether the identity of this machine may be used where there are none.

    Raises:
        BadRequest: an option is missing or not known, or the cloud is.
        AccountRefused: the credentials are incomplete, or there are none.
        MissingLibrary: the cloud's library is not installed.
    """
    if cloud not in _CLOUDS:
        raise BadRequest(f"no cloud is called {cloud!r}: {', '.join(sorted(_CLOUDS))} or local")
    if not own_identity and not any(credentials.get(name) for name in _KEYS[cloud]):
        names = " and ".join(_KEYS[cloud])
        raise AccountRefused(f"the Secret has no {names} for {cloud}", scope=Scope.CLOUD)
    return _CLOUDS[cloud](_Options(cloud, options), credentials, egress or EgressPolicy())


def _gcp(options: _Options, credentials: Mapping[str, str], egress: EgressPolicy) -> CloudProvider:
    from corral.clouds.gcp import (
        GcpProvider,
        GcpSettings,
        MachineIdentity,
        Network,
        ServiceAccount,
    )
    from corral.clouds.gcp.provider import ENDPOINT
    from corral.clouds.notices.gcp import ENDPOINT as METADATA

    settings = GcpSettings(
        project=options.need("project"),
        endpoint=options.take("endpoint", ENDPOINT),
        network=Network(
            network=options.take("network", "global/networks/default"),
            subnetwork=options.take("subnetwork", ""),
            external_ip=options.take("externalIP", False),
        ),
        on_demand=options.take("onDemand", {}),
        egress=egress,
    )
    metadata = options.take("metadata", METADATA)
    options.done()
    key = credentials.get("credentials.json")
    return GcpProvider(settings, ServiceAccount(key) if key else MachineIdentity(metadata))


def _aws(options: _Options, credentials: Mapping[str, str], egress: EgressPolicy) -> CloudProvider:
    from corral.clouds.aws import AwsCredentials, AwsProvider, AwsSettings, Place
    from corral.clouds.aws.provider import ADVISOR

    settings = AwsSettings(
        region=options.need("region"),
        endpoint=options.take("endpoint", None),
        advisor=options.take("advisor", ADVISOR),
        place=Place(
            subnets=options.take("subnets", {}),
            security_groups=options.take("securityGroups", ()),
            key_name=options.take("keyName", ""),
            root_device=options.take("rootDevice", "/dev/xvda"),
            external_ip=options.take("externalIP", False),
        ),
        on_demand=options.take("onDemand", {}),
    )
    options.done()
    names = _KEYS["aws"]
    if not _all_or_none("aws", credentials, names):
        return AwsProvider(settings)
    keys = AwsCredentials(
        credentials[names[0]], credentials[names[1]], credentials.get("AWS_SESSION_TOKEN", "")
    )
    return AwsProvider(settings, keys)


def _azure(
    options: _Options, credentials: Mapping[str, str], egress: EgressPolicy
) -> CloudProvider:
    from corral.clouds.azure import (
        AzureProvider,
        AzureSettings,
        ClientSecret,
        ManagedIdentity,
        Place,
    )
    from corral.clouds.azure.auth import AUTHORITY
    from corral.clouds.azure.provider import ENDPOINT, PRICES
    from corral.clouds.notices.azure import ENDPOINT as METADATA

    settings = AzureSettings(
        subscription=options.need("subscription"),
        resource_group=options.need("resourceGroup"),
        place=Place(
            options.need("subnet"),
            options.take("securityGroup", ""),
            options.take("externalIP", False),
        ),
        endpoint=options.take("endpoint", ENDPOINT),
        prices_endpoint=options.take("prices", PRICES),
        egress=egress,
    )
    authority = options.take("authority", AUTHORITY)
    metadata = options.take("metadata", METADATA)
    options.done()
    names = _KEYS["azure"]
    if not _all_or_none("azure", credentials, names):
        return AzureProvider(settings, ManagedIdentity(metadata))
    tenant, client, secret = (credentials[name] for name in names)
    tokens = ClientSecret(tenant=tenant, client_id=client, secret=secret, authority=authority)
    return AzureProvider(settings, tokens)


def _all_or_none(cloud: str, credentials: Mapping[str, str], names: tuple[str, ...]) -> bool:
    """Whether credentials are given. Raises AccountRefused when only some are."""
    missing = [name for name in names if not credentials.get(name)]
    if missing and len(missing) < len(names):
        raise AccountRefused(
            f"the credentials of {cloud} lack {', '.join(missing)}", scope=Scope.CLOUD
        )
    return not missing


_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "gcp": ("credentials.json",),
    "aws": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "azure": ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"),
}
_Opener = Callable[[_Options, Mapping[str, str], EgressPolicy], "CloudProvider"]
_CLOUDS: Final[Mapping[str, _Opener]] = {
    "gcp": _gcp,
    "aws": _aws,
    "azure": _azure,
}
