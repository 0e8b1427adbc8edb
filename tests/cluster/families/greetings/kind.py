"""The kind: ``Greeting`` of ``greetings.corral.dev``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from corral.api.fields import Conditions, Int32, Int64, Model
from corral.api.kind import Kind, Names

__all__ = ["GREETINGS", "Greeting", "GreetingSpec", "GreetingStatus"]


class GreetingSpec(Model):
    """What is asked for."""

    text: str
    """What the cards say."""
    cards: Annotated[Int32, Field(ge=0, le=100)] = 1
    """ConfigMaps with the text (default: 1)."""


class GreetingStatus(Model):
    """What is known."""

    phase: Literal["Pending", "Ready"] | None = None
    observed_generation: Int64 | None = None
    cards: Int32 | None = None
    conditions: Conditions | None = None


class Greeting(Kind):
    """A text on so many cards."""

    names = Names("greetings.corral.dev", "v1alpha1", "Greeting", "greetings")

    spec: GreetingSpec
    status: GreetingStatus | None = None


GREETINGS = Greeting.resource()
