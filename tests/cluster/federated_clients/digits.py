"""The data of examples/federated, for tests."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from tests.cluster.federated_clients.modules import EXAMPLES


def _example(name: str) -> ModuleType:
    """A file of the example, which is a folder of programs and no package."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES))


client = _example("client")
_digits = _example("digits")
accuracy = _digits.accuracy
split = _digits.split
