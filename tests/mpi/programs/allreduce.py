"""Every rank says where it runs and what the sum over all ranks is."""

import os
import socket

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
mine = numpy.full(1000, world.rank + 1.0)
total = numpy.empty_like(mine)
world.Allreduce(mine, total)
same = bool((total == total[0]).all())
line = f"rank {world.rank} of {world.size} on {socket.gethostname()}: {total[0]:g} {same}\n"
# In one piece: lines of several ranks must not be mixed.
os.write(1, line.encode())
