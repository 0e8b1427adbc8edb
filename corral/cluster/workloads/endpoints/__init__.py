"""Where the pods of a service are: EndpointSlices and Endpoints from a service and its pods.

``selected_pods`` says which pods belong to a service, ``plan_slices`` what slices to write,
``endpoints_object`` what the older Endpoints object should be, ``plan_mirror`` what slices
hand-written Endpoints get; none of them does I/O. ``controller`` drives them.
"""

from __future__ import annotations

from corral.cluster.workloads.endpoints.addresses import selected_pods
from corral.cluster.workloads.endpoints.legacy import endpoints_object
from corral.cluster.workloads.endpoints.mirroring import plan_mirror
from corral.cluster.workloads.endpoints.slices import SlicePlan, plan_slices

__all__ = ["SlicePlan", "endpoints_object", "plan_mirror", "plan_slices", "selected_pods"]
