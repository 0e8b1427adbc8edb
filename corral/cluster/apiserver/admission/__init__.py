"""Admission: what may change or refuse a write after it is authorized.

The order is kube-apiserver's: namespace lifecycle, limits, service account, priority, tolerations,
storage classes, mutating policies and webhooks; then, once the object is valid, validating
policies, validating webhooks and quota.
"""

from corral.cluster.apiserver.admission.chain import Chain, Plugin

__all__ = ["Chain", "Plugin"]
