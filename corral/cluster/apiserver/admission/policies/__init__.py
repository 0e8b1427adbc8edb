"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: admission by CEL, without a webhook.

``definitions`` holds policies and bindings as they are at work, ``source`` finds those that want a
request, ``params`` the objects they are parametrised with; the plugins are in ``validating`` and
``mutating``. Policies never see policies, bindings and access reviews.
"""

from corral.cluster.apiserver.admission.policies.mutating import MutatingPolicies
from corral.cluster.apiserver.admission.policies.validating import ValidatingPolicies

__all__ = ["MutatingPolicies", "ValidatingPolicies"]
