"""Horizontal pod autoscalers: as many replicas as the use of resources calls for.

``samples`` reads what metrics.k8s.io answers; ``replicas`` makes a number of replicas of it;
``evaluation`` does so for all metrics of an autoscaler; ``behavior`` keeps the number within limits
and steady over time. These are pure. ``target`` reads and writes the scale of any kind that has
one, and ``controller`` does it all every 15 seconds.
"""
