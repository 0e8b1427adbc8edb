"""Module images from OCI registries: pulled as a kubelet pulls images, and kept by digest.

``decisions`` says, without I/O, whether a container's module comes from its image and what becomes
of it by its pull policy; ``modules`` finds the module in an artifact; ``cache`` keeps what was
pulled; ``puller`` does it, with the credentials of the pod and a back-off. A module that is run is
verified before, every time.
"""
