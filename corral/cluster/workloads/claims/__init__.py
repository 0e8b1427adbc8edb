"""PersistentVolumeClaims: binding them to volumes, and making a folder for each that needs one.

``controller`` is the binder, as kube-controller-manager has it: which volume a claim gets
(``matching``), the phases of both (``binder``), their protection while they are used
(``protection``), and the claims of ephemeral volumes (``ephemeral``). ``provisioner`` makes and
removes the volumes of class ``corral``, a folder each; it knows the binder only through the API,
and works beside kube-controller-manager as well.
"""

from __future__ import annotations

from corral.cluster.workloads.claims.names import PROVISIONER, storage_class

__all__ = ["PROVISIONER", "storage_class"]
