"""Admission webhooks: which ones match, the call, and what the answer means."""
