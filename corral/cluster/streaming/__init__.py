"""Streams over one connection, as Kubernetes clients and kubelets speak them.

Three layers, each usable alone and none of them aware of API servers or nodes:

* bytes: :mod:`wires` (a TCP connection, an upgraded HTTP request, a WebSocket used as a tunnel)
  and :mod:`upgrade` (both ends of an HTTP/1.1 upgrade);
* streams: :mod:`frames` and :mod:`spdy` (SPDY/3.1), :mod:`channels` (WebSocket channels);
* meaning: :mod:`commands` (exec and attach) and :mod:`forwarding` (port-forward).

Every buffer is bounded: a reader that stops stops the writer at the far end.
"""
