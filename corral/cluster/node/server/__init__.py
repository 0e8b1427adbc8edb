"""What a kubelet serves on port 10250, so that any API server can reach the pods of this node.

From the outside in:

* :mod:`service` listens, lets in, and finds who answers;
* :mod:`certificates` is the TLS end, :mod:`identity` says who asks (client certificate, or a token
  that the API server knows), :mod:`authority` whether they may; both by reviews that are
  remembered for a while (:mod:`memory`);
* :mod:`logs` (woken by :mod:`changes`), :mod:`sessions` (exec, attach, port-forward) and
  :mod:`reports` (pods, health, metrics, statistics, from :mod:`readings`) answer.

Nothing here knows how pods are run: all of it goes through
:class:`~corral.cluster.node.access.PodAccess`. Nothing happens while nobody asks.
"""

from corral.cluster.node.server.service import NodeServer

__all__ = ["NodeServer"]
