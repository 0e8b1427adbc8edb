"""Azure: `provider` talks, `bodies` has the shapes, `auth` the tokens."""

from corral.clouds.azure.auth import ClientSecret, ManagedIdentity
from corral.clouds.azure.bodies import Place
from corral.clouds.azure.provider import AzureProvider, AzureSettings

__all__ = ["AzureProvider", "AzureSettings", "ClientSecret", "ManagedIdentity", "Place"]
