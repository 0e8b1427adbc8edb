"""gRPC in front of the Kubernetes API: the same questions and answers as REST.

``server`` starts it, ``calls`` is what happens to every call, ``operations`` the methods of all
services, ``objects``, ``messages`` and ``values`` how objects travel without losing anything,
``failures`` how refusals do. The messages are in `corral.v1`; docs/grpc.md tells more.
"""

from __future__ import annotations

from corral.gateway.grpc.calls import Shared
from corral.gateway.grpc.server import GrpcServer, GrpcSettings, serve_grpc

__all__ = ["GrpcServer", "GrpcSettings", "Shared", "serve_grpc"]
