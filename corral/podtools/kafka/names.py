"""The topics of a deployment, by their roles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.podtools.kafka.client import LARGEST, Topic

__all__ = ["Names"]

_CONTROL: Final = 50_000
_DEFAULTS: Final = {
    "modelAnnouncements": "FEDERATED_MODEL_CONTROL_TOPIC",
    "dataControl": "FEDERATED_DATA_CONTROL_TOPIC",
    "modelControl": "FED-{id}-model_control_topic",
    "modelData": "FED-{id}-model_data_topic",
    "clientControl": "FED-{id}-agg_control_topic",
    "clientData": "FED-{id}-agg_data_topic-{client}",
}


@dataclass(frozen=True, slots=True)
class Names:
    """Templates with ``{id}`` and ``{client}``, for one federated id."""

    federated_id: str
    templates: Mapping[str, str]

    @classmethod
    def of(cls, federated_id: str, text: str = "") -> Names:
        """``text`` is JSON of what differs from the names that everybody uses.

        Raises:
            ValueError: it is no such thing.
        """
        given = json.loads(text) if text else {}
        if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
            raise ValueError("names of topics are texts by their roles")
        return cls(federated_id, {**_DEFAULTS, **given})

    def _name(self, role: str, client: str = "") -> str:
        return self.templates[role].replace("{id}", self.federated_id).replace("{client}", client)

    @property
    def announcements(self) -> str:
        return self._name("modelAnnouncements")

    @property
    def data_control(self) -> str:
        return self._name("dataControl")

    @property
    def model_control(self) -> str:
        return self._name("modelControl")

    @property
    def model_data(self) -> str:
        return self._name("modelData")

    @property
    def client_control(self) -> str:
        return self._name("clientControl")

    def client_data(self, client: str) -> str:
        return self._name("clientData", client)

    @property
    def state(self) -> str:
        """The log of rounds; ours alone."""
        return f"FED-{self.federated_id}-state"

    @property
    def state_data(self) -> str:
        """What strategies keep between rounds; ours alone."""
        return f"FED-{self.federated_id}-state_data"

    def own(self, control_bytes: int = _CONTROL) -> list[Topic]:
        """Those of the deployment itself, as they are made."""
        return [
            Topic(self.model_control, control_bytes),
            Topic(self.model_data, LARGEST),
            Topic(self.client_control, _CONTROL),
            Topic(self.state, 1_000_000),
            Topic(self.state_data, LARGEST),
        ]

    def made(self, there: Iterable[str]) -> list[str]:
        """Those of some topics that were made for this id and nobody else.

        Names without ``{id}`` may be another deployment's as well.
        """
        one = re.escape("{client}")
        patterns = [
            re.escape(template.replace("{id}", self.federated_id)).replace(one, "[a-zA-Z0-9._-]+")
            for template in (*self.templates.values(), "FED-{id}-state", "FED-{id}-state_data")
            if "{id}" in template
        ]
        return [name for name in there if any(re.fullmatch(p, name) for p in patterns)]

    def shared(self) -> list[Topic]:
        return [Topic(self.announcements, 1_000_000), Topic(self.data_control, 1_000_000)]
