"""The algorithms that an aggregator may name, and their parameters; without loading the engine.

The table says what `corral.learning.strategies` says (a test compares them): the engine needs
NumPy, and admission must not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from corral.kube.problems import FieldError, invalid_value, not_supported, type_invalid

__all__ = [
    "AVERAGING",
    "FORMAT",
    "MAX_SAMPLES",
    "STRATEGIES",
    "Parameter",
    "aggregator_problems",
    "canonical",
]

FORMAT: Final = "format"
"""In the config of every algorithm: how payloads are encoded, where that is known beforehand."""

MAX_SAMPLES: Final = "max_samples"
"""In the config of every algorithm: the most samples that one participant may say it has."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number, its range, and whether it is whole."""

    low: float = 0.0
    high: float = float("inf")
    whole: bool = False
    open: bool = False
    """The upper end itself is not allowed."""

    def wrong(self, value: float) -> str:
        """Why a number is not allowed; empty where it is."""
        if self.whole and value != int(value):
            return "must be a whole number"
        above = value >= self.high if self.open else value > self.high
        if value >= self.low and not above:
            return ""
        return f"must be in [{self.low:g}, {self.high:g}{')' if self.open else ']'}"


_RATE = Parameter()
_DECAY = Parameter(high=1.0, open=True)
_TAU = Parameter(low=1e-12)
_COUNT = Parameter(whole=True)
_SAMPLES = Parameter(low=1, high=2**31 - 1, whole=True)
_ADAPTIVE = {"learning_rate": _RATE, "beta_1": _DECAY, "beta_2": _DECAY, "tau": _TAU}

STRATEGIES: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "fedavg": {},
    "fedprox": {"mu": _RATE},
    "fedavgm": {"learning_rate": _RATE, "momentum": _DECAY},
    "fedadam": _ADAPTIVE,
    "fedadagrad": {"learning_rate": _RATE, "beta_1": _DECAY, "tau": _TAU},
    "fedyogi": _ADAPTIVE,
    "median": {},
    "trimmed-mean": {"fraction": Parameter(high=0.5, open=True)},
    "krum": {"byzantine": _COUNT},
    "multi-krum": {"byzantine": _COUNT, "keep": _COUNT},
    "bulyan": {"byzantine": _COUNT},
    "concat": {},
}
AVERAGING: Final = ("fedavg", "fedprox", "fedavgm", "fedadam", "fedadagrad", "fedyogi")
"""Those that are made of a mean, and can be private therefore."""


def canonical(algorithm: str) -> str:
    """The name as the engine has it; fedavg where it is empty."""
    return (algorithm or "fedavg").lower()


def aggregator_problems(
    path: str, algorithm: str, config: Any, *, private: bool = False
) -> Iterator[FieldError]:
    """What is wrong with an algorithm and its parameters; ``path`` is that of the aggregator."""
    name = canonical(algorithm)
    parameters = STRATEGIES.get(name)
    if parameters is None:
        yield not_supported(f"{path}.algorithm", algorithm, STRATEGIES)
        return
    if private and name not in AVERAGING:
        why = f"needs an algorithm that is made of a mean: {', '.join(AVERAGING)}"
        yield invalid_value(f"{path}.privacy", name, why)
    if config is None:
        return
    if not isinstance(config, dict):
        yield type_invalid(f"{path}.config", config, "must be an object")
        return
    for key, value in config.items():
        where = f"{path}.config.{key}"
        if key == FORMAT:
            yield from _format_problems(where, value)
        elif key == MAX_SAMPLES:
            yield from _number_problems(where, value, _SAMPLES)
        elif key not in parameters:
            yield not_supported(where, key, (*parameters, FORMAT, MAX_SAMPLES))
        else:
            yield from _number_problems(where, value, parameters[key])


def _format_problems(path: str, value: Any) -> Iterator[FieldError]:
    if not isinstance(value, str) or len(value) > 64:
        yield invalid_value(path, value, "must be the name of a format such as json-f64 or f32-le")


def _number_problems(path: str, value: Any, parameter: Parameter) -> Iterator[FieldError]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield invalid_value(path, value, "must be a number")
        return
    why = parameter.wrong(value)
    if why:
        yield invalid_value(path, value, why)
