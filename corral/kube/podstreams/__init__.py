"""Streams to a running pod: logs, commands, attaching, port forwarding."""
