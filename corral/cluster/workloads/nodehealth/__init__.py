"""The health of nodes, and what it means for their pods.

``heartbeats`` says which nodes have gone silent, by our own clock; ``conditions`` what their status
and that of their pods is then; ``taints`` which taints and labels a node ought to have; ``zones``
how fast nodes may be given up, and when none may; ``evictions`` when a pod must leave a tainted
node. These are pure. ``monitor`` judges all nodes every few seconds, ``eviction`` removes pods, and
``controller`` wires both to a manager.
"""
