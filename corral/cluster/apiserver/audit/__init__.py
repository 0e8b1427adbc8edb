"""The audit log: who asked for what, and what became of it, as kube-apiserver writes it.

``policy`` decides how much of a request is recorded (``audit.k8s.io/v1`` Policy), ``record`` makes
the Events, ``log`` appends them to a file that rotates. Without a policy file nothing is recorded,
and requests pay nothing.
"""
