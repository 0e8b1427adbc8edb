"""VMs of several clouds behind one interface: a leaf package, with no Kubernetes in it.

Guarantees:

- One request id makes one VM, on every cloud, whatever answer is lost and whoever dies when.
- Errors say by class what to do and by scope what to avoid, from the clouds' codes.
- What clouds tell about VMs they will take is one stream, with deadlines.
- `local` VMs are processes of this machine that behave so too, and survive whoever made them.

Endpoints and metadata addresses are parameters everywhere. No cloud's library is loaded before a
provider of that cloud is made.

Read next: `base` for the interface, `errors` and `codes`, `notices` for what is told inside a VM,
`sweep` for orphans, `local` for VMs on this machine, `joiner` for how a VM becomes a node.
"""

from corral.clouds.base import (
    OWNER_LABEL,
    REQUEST_LABEL,
    CloudProvider,
    Gpu,
    Hazard,
    Notice,
    NoticeKind,
    Price,
    State,
    Vm,
    VmRef,
    VmRequest,
    vm_name,
)
from corral.clouds.errors import (
    AccountRefused,
    BadRequest,
    CloudError,
    MissingLibrary,
    QuotaExceeded,
    Scope,
    StockOut,
    Transient,
)
from corral.clouds.sweep import Sweeper, Swept

__all__ = [
    "OWNER_LABEL",
    "REQUEST_LABEL",
    "AccountRefused",
    "BadRequest",
    "CloudError",
    "CloudProvider",
    "Gpu",
    "Hazard",
    "MissingLibrary",
    "Notice",
    "NoticeKind",
    "Price",
    "QuotaExceeded",
    "Scope",
    "State",
    "StockOut",
    "Sweeper",
    "Swept",
    "Transient",
    "Vm",
    "VmRef",
    "VmRequest",
    "vm_name",
]
