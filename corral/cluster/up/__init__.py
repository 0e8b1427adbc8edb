"""A whole cluster in one process tree: API server, workload controllers, scheduler, nodes.

* :mod:`folder` is the data folder: who uses it, and what lies where;
* :mod:`supervisor` forks the parts, waits until they serve, starts again what dies, and stops
  them in order;
* :mod:`parts` is what each part does in its own process;
* :mod:`objects` are the objects such a cluster begins with.

The parts know each other through the API alone: each could be a real one. Whoever starts a cluster
may add parts of its own (:class:`cluster.Addition`); the operator is one.
"""
