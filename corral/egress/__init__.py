"""Which servers a process calls on behalf of others, and how much of an answer it reads.

Objects and Secrets of users name servers: of stores, registries, token services, brokers. Whoever
calls them with this process's own place in the network asks here first. `policy` decides and does
no I/O; `dialing` (sockets), `http` (aiohttp) and `proxy` (clients that cannot be told) hold to it
when a connection is made, whatever a name stood for before; `reading` bounds answers.
"""

from __future__ import annotations

from corral.egress.policy import Allowance, EgressPolicy, EndpointRefused

__all__ = ["Allowance", "EgressPolicy", "EndpointRefused"]
