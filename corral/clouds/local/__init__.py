"""VMs that are processes of this machine, so that all the rest can be run and tested for real.

`provider` makes and ends them, `machine` is the process that is one, `metadata` its endpoint,
`records` what is on disk, `faults` what can be made to go wrong.
"""

from corral.clouds.local.faults import Fault
from corral.clouds.local.provider import LocalProvider
from corral.clouds.local.settings import LocalSettings, node_command

__all__ = ["Fault", "LocalProvider", "LocalSettings", "node_command"]
