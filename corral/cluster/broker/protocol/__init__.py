"""Bytes of connections: framing within limits, requests read, answers written."""
