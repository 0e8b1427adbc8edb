"""Kinds that run the cluster itself: access, admission, certificates, flow control, devices."""
