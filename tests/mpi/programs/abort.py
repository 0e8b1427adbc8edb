"""The last rank gives up; the others wait for it, for ever if nobody ends them."""

import os
import socket

from mpi4py import MPI

world = MPI.COMM_WORLD
world.Barrier()
if world.rank == world.size - 1:
    os.write(1, f"rank {world.rank} aborts on {socket.gethostname()}\n".encode())
    world.Abort(7)
world.Barrier()
