"""Where machines can be had: places, what is offered there, and what it costs to reach data.

Times are seconds, prices are per hour, work is seconds on a machine of speed 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

__all__ = ["HOUR", "NETWORK", "Home", "Network", "Offer", "Place"]

HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One machine type in one zone: what capacity is given or refused for."""

    cloud: str
    region: str
    zone: str
    machine_type: str

    def __str__(self) -> str:
        return f"{self.cloud}/{self.region}/{self.zone}/{self.machine_type}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The place that ``str`` wrote.

        Raises:
            ValueError: it is none.
        """
        parts = text.split("/")
        if len(parts) != 4 or not all(parts):
            raise ValueError(f"{text!r} is no place: write cloud/region/zone/machineType")
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a machine costs now, as spot or on demand."""

    place: Place
    price: float
    """Per hour, of one machine."""
    spot: bool = True
    speed: float = 1.0
    """How much work a machine does in a second."""
    notice_s: float = 30.0
    """How long before it is taken the machine is told."""
    published_hazard: float | None = None
    """Losses per hour that the provider publishes."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where the checkpoints and the data of a job are."""

    cloud: str
    region: str


@dataclass(frozen=True, slots=True)
class Network:
    """What moving data costs, per GiB, and how fast it goes, in GiB/s."""

    region_price: float = 0.0
    cloud_price: float = 0.02
    """Between regions of one cloud."""
    internet_price: float = 0.09
    """The price of traffic between clouds, by the gigabyte."""
    region_speed: float = 1.0
    cloud_speed: float = 0.4
    internet_speed: float = 0.15

    def price(self, place: Place, home: Home) -> float:
        """Per GiB, between a place and the data's home."""
        if place.cloud != home.cloud:
            return self.internet_price
        return self.region_price if place.region == home.region else self.cloud_price

    def speed(self, place: Place, home: Home) -> float:
        if place.cloud != home.cloud:
            return self.internet_speed
        return self.region_speed if place.region == home.region else self.cloud_speed


NETWORK: Final = Network()
"""What the large clouds about charge."""
