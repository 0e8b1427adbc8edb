"""Virtual clients: the program of a participant as a function, many of them on one machine.

`Pool` runs clients in a few processes, each with a folder like the one that a participant has in a
cluster (`FL_DIR`). What a round makes of their answers is not decided here.
"""

from corral.learning.simulation.clients import Answer, ClientProblem, Work
from corral.learning.simulation.pool import Pool

__all__ = ["Answer", "ClientProblem", "Pool", "Work"]
