"""What is to be done: a job's work, its checkpoints and its deadline, as placement sees it."""

from __future__ import annotations

from dataclasses import dataclass

from corral.spot.markets import HOUR, NETWORK, Home, Network, Offer, Place

__all__ = ["Progress", "Workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """A job; measured figures replace the defaults as soon as there are any."""

    work_s: float
    """All of its work, in seconds of a machine of speed 1."""
    home: Home
    deadline: float | None = None
    """When it must be done."""
    checkpoint_gib: float = 20.0
    data_gib: float = 0.0
    """What every start reads from home besides the checkpoint."""
    stage_s: float = 10.0
    """How long training stands still for a checkpoint; the upload goes on beside it."""
    boot_s: float = 240.0
    """From asking for a machine until it is a node."""
    start_s: float = 60.0
    """From the node to the first step, without transfers."""
    machines: int = 1
    network: Network = NETWORK

    def per_second(self, offer: Offer) -> float:
        """The price of running for one second."""
        return offer.price * self.machines / HOUR

    def upload_s(self, place: Place) -> float:
        """How long until a staged checkpoint is safe."""
        return self.checkpoint_gib / self.network.speed(place, self.home)

    def upload_cost(self, place: Place) -> float:
        return self.checkpoint_gib * self.network.price(place, self.home)

    def restore_s(self, place: Place) -> float:
        """From the node to the first new step."""
        gib = self.checkpoint_gib + self.data_gib
        return self.start_s + gib / self.network.speed(place, self.home)

    def restore_cost(self, place: Place) -> float:
        gib = self.checkpoint_gib + self.data_gib * self.machines
        return gib * self.network.price(place, self.home)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is with its work."""

    done_s: float = 0.0
    """Work done, some of it in memory only."""
    saved_s: float = 0.0
    """Work that a verified checkpoint holds."""
