"""Google Compute Engine: `provider` talks, `bodies` has the shapes, `auth` the tokens."""

from corral.clouds.gcp.auth import MachineIdentity, ServiceAccount
from corral.clouds.gcp.bodies import Network
from corral.clouds.gcp.provider import GcpProvider, GcpSettings

__all__ = ["GcpProvider", "GcpSettings", "MachineIdentity", "Network", "ServiceAccount"]
