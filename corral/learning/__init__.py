"""Federated learning without a cluster: strategies, codecs, exact streaming aggregation, privacy.

Python and NumPy, and C where there is a compiler (`native`); nothing of Kubernetes in it. Start
with `Aggregation` (engine.py): it takes the updates of a round as they come and gives the next
model. docs/federated.md tells the rest.
"""

from corral.learning.codecs import CODECS, Codec, Spool, codec, decode_chunks, decode_stream
from corral.learning.engine import Aggregation, Result
from corral.learning.errors import (
    AggregationFailed,
    BudgetExhausted,
    FederatedError,
    InvalidConfig,
    UpdateRejected,
)
from corral.learning.strategies import STRATEGIES, Strategy, strategy
from corral.learning.tensors import Model, Tensor, Update

__all__ = [
    "CODECS",
    "STRATEGIES",
    "Aggregation",
    "AggregationFailed",
    "BudgetExhausted",
    "Codec",
    "FederatedError",
    "InvalidConfig",
    "Model",
    "Result",
    "Spool",
    "Strategy",
    "Tensor",
    "Update",
    "UpdateRejected",
    "codec",
    "decode_chunks",
    "decode_stream",
    "strategy",
]
