"""What can go wrong with a pod's network."""

from __future__ import annotations


class NetworkError(Exception):
    """A network could not be set up; the message is for people."""


class NoAddress(NetworkError):
    """Every address of the node's network is taken."""
