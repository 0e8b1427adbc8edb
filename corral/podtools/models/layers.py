"""Small networks in NumPy: what is trained where neither TensorFlow nor PyTorch is installed.

A `Sequential` of `Dense` layers is used as Keras models are (compile, fit, evaluate, predict,
get_weights, to_json). Everything is seeded: the same data and weights give the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dense", "Flatten", "Sequential", "model_from_json"]

Array = NDArray[Any]
_CLASS: Final = "corral.Sequential"
_SMALL: Final = 1e-7


class Flatten:
    """Makes one vector of every sample."""

    def __init__(self, input_shape: Sequence[int] = ()) -> None:
        self.input_shape = tuple(input_shape)

    def config(self) -> dict[str, Any]:
        return {"layer": "Flatten", "input_shape": list(self.input_shape)}


class Dense:
    """``activation(x @ kernel + bias)``."""

    def __init__(
        self,
        units: int,
        activation: str = "linear",
        input_shape: Sequence[int] | int = (),
        use_bias: bool = True,
    ) -> None:
        if units < 1:
            raise ValueError(f"Dense needs at least one unit, not {units}")
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"unknown activation {activation!r}; known: {known}")
        self.units = units
        self.activation = activation
        shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
        self.input_shape = shape
        self.use_bias = use_bias
        self.kernel: Array = np.zeros((0, units), np.float32)
        self.bias: Array = np.zeros(units, np.float32)

    def config(self) -> dict[str, Any]:
        return {
            "layer": "Dense",
            "units": self.units,
            "activation": self.activation,
            "use_bias": self.use_bias,
            "input_shape": list(self.input_shape),
        }

    def build(self, inputs: int, rng: np.random.Generator) -> None:
        """Glorot's uniform distribution, as Keras begins."""
        limit = np.sqrt(6.0 / (inputs + self.units))
        self.kernel = rng.uniform(-limit, limit, (inputs, self.units)).astype(np.float32)
        self.bias = np.zeros(self.units, np.float32)

    @property
    def weights(self) -> list[Array]:
        return [self.kernel, self.bias] if self.use_bias else [self.kernel]


def _softmax(x: Array) -> Array:
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    out: Array = e / e.sum(axis=-1, keepdims=True)
    return out


def _sigmoid(x: Array) -> Array:
    out: Array = 1.0 / (1.0 + np.exp(-np.clip(x, -60, 60)))
    return out


ACTIVATIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    # what it gives, and its slope by what it gave
    "linear": (lambda x: x, lambda y: np.ones_like(y)),
    "relu": (lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(y.dtype)),
    "tanh": (np.tanh, lambda y: 1 - y * y),
    "sigmoid": (_sigmoid, lambda y: y * (1 - y)),
    "softmax": (_softmax, None),
}
LOSSES: Final = (
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "binary_crossentropy",
    "mse",
    "mean_squared_error",
)
OPTIMIZERS: Final = ("sgd", "adam")


class Sequential:
    """Layers one after the other."""

    def __init__(self, layers: Sequence[Dense | Flatten], *, seed: int = 0) -> None:
        if not layers or not layers[0].input_shape:
            raise ValueError("the first layer needs an input_shape")
        self.layers = list(layers)
        self.seed = seed
        self.input_shape = tuple(int(n) for n in layers[0].input_shape)
        rng = np.random.default_rng(seed)
        size = int(np.prod(self.input_shape))
        if isinstance(layers[0], Dense) and len(self.input_shape) > 1:
            raise ValueError("data of more than one dimension needs Flatten before Dense")
        for layer in self._dense:
            layer.build(size, rng)
            size = layer.units
        self.output_shape = (size,)
        self.compile_args: dict[str, Any] = {}

    @property
    def _dense(self) -> list[Dense]:
        return [layer for layer in self.layers if isinstance(layer, Dense)]

    # -- as people say what it is ----------------------------------------------------------------

    def compile(
        self,
        optimizer: str = "sgd",
        loss: str = "categorical_crossentropy",
        metrics: Sequence[str] = ("accuracy",),
        learning_rate: float | None = None,
    ) -> None:
        """How it is trained. Raises ValueError for words that are not known."""
        if optimizer.lower() not in OPTIMIZERS:
            raise ValueError(f"unknown optimizer {optimizer!r}; known: {', '.join(OPTIMIZERS)}")
        if loss not in LOSSES:
            raise ValueError(f"unknown loss {loss!r}; known: {', '.join(LOSSES)}")
        if wrong := [name for name in metrics if name not in ("accuracy", "mse")]:
            raise ValueError(f"unknown metric {wrong[0]!r}; known: accuracy, mse")
        rate = learning_rate or {"sgd": 0.1, "adam": 0.001}[optimizer.lower()]
        self.compile_args = {
            "optimizer": optimizer.lower(),
            "loss": loss,
            "metrics": list(metrics),
            "learning_rate": float(rate),
        }

    def to_json(self) -> str:
        layers = [layer.config() for layer in self.layers]
        return json.dumps({"class_name": _CLASS, "config": {"layers": layers, "seed": self.seed}})

    def get_weights(self) -> list[Array]:
        return [array for layer in self._dense for array in layer.weights]

    def set_weights(self, weights: Sequence[Array]) -> None:
        """Raises ValueError where they are not of this model."""
        own = self.get_weights()
        if len(weights) != len(own):
            raise ValueError(f"the model has {len(own)} arrays, not {len(weights)}")
        left = list(weights)
        for layer in self._dense:
            for name in ("kernel", "bias") if layer.use_bias else ("kernel",):
                given, mine = np.asarray(left.pop(0), np.float32), getattr(layer, name)
                if given.shape != mine.shape:
                    raise ValueError(f"an array has shape {given.shape}, not {mine.shape}")
                setattr(layer, name, given.copy())

    # -- as it is used ---------------------------------------------------------------------------

    def predict(self, x: Array) -> Array:
        return self._forward(self._vectors(x))[-1]

    def evaluate(self, x: Array, y: Array) -> dict[str, float]:
        given = self._forward(self._vectors(x))[-1]
        wanted = self._targets(y)
        out = {"loss": self._loss(given, wanted)}
        for name in self.compile_args["metrics"]:
            out[name] = _metric(name, given, wanted)
        return out

    def fit(
        self,
        x: Array,
        y: Array,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        shuffle: bool = True,
        validation_data: tuple[Array, Array] | None = None,
        seed: int = 0,
        mu: float = 0.0,
        steps_per_epoch: int = 0,
    ) -> dict[str, list[float]]:
        """Train; gives metrics by epoch. ``mu`` pulls the weights to where they began (FedProx)."""
        if not self.compile_args:
            raise ValueError("the model is not compiled: call model.compile(…)")
        vectors, targets = self._vectors(x), self._targets(y)
        if len(vectors) != len(targets) or not len(vectors):
            raise ValueError(f"{len(vectors)} samples and {len(targets)} labels")
        rng = np.random.default_rng(seed)
        step = _Optimizer(self.compile_args, self.get_weights())
        began = [array.copy() for array in self.get_weights()] if mu else []
        history: dict[str, list[float]] = {}
        for _ in range(epochs):
            order = rng.permutation(len(vectors)) if shuffle else np.arange(len(vectors))
            starts = range(0, len(order), batch_size)
            for first in list(starts)[: steps_per_epoch or None]:
                chosen = order[first : first + batch_size]
                slopes = self._slopes(vectors[chosen], targets[chosen])
                if mu:
                    own = self.get_weights()
                    slopes = [s + mu * (w - b) for s, w, b in zip(slopes, own, began, strict=True)]
                self.set_weights(step(self.get_weights(), slopes))
            for name, value in self.evaluate(x, y).items():
                history.setdefault(name, []).append(value)
            if validation_data is not None and len(validation_data[0]):
                for name, value in self.evaluate(*validation_data).items():
                    history.setdefault(f"val_{name}", []).append(value)
        return history

    # -- inside ----------------------------------------------------------------------------------

    def _vectors(self, x: Array) -> Array:
        size = int(np.prod(self.input_shape))
        out = np.asarray(x, np.float32).reshape(len(x), -1)
        if out.shape[1] != size:
            raise ValueError(f"samples have {out.shape[1]} values; the model takes {size}")
        return out

    def _targets(self, y: Array) -> Array:
        wanted = np.asarray(y)
        units = self.output_shape[0]
        classes = wanted.ndim == 1 or (wanted.ndim == 2 and wanted.shape[1] == 1 and units > 1)
        if classes and self.compile_args.get("loss", "").endswith("categorical_crossentropy"):
            numbers = wanted.reshape(-1).astype(np.int64)
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < units:
                raise ValueError(f"labels must be 0 to {units - 1}")
            return np.eye(units, dtype=np.float32)[numbers]
        return wanted.astype(np.float32).reshape(len(wanted), -1)

    def _forward(self, x: Array) -> list[Array]:
        out = [x]
        for layer in self._dense:
            act, _ = ACTIVATIONS[layer.activation]
            out.append(act(out[-1] @ layer.kernel + (layer.bias if layer.use_bias else 0)))
        return out

    def _loss(self, given: Array, wanted: Array) -> float:
        loss = self.compile_args["loss"]
        if loss.endswith("categorical_crossentropy"):
            logs = np.log(np.clip(given, _SMALL, 1.0))
            return float(-(wanted * logs).sum(axis=-1).mean())
        if loss == "binary_crossentropy":
            p = np.clip(given, _SMALL, 1 - _SMALL)
            return float(-(wanted * np.log(p) + (1 - wanted) * np.log(1 - p)).mean())
        return float(((given - wanted) ** 2).mean())

    def _slopes(self, x: Array, y: Array) -> list[Array]:
        values = self._forward(x)
        error = self._error(values[-1], y)
        found: list[list[Array]] = []
        for place in range(len(self._dense) - 1, -1, -1):
            layer = self._dense[place]
            slopes = [values[place].T @ error]
            if layer.use_bias:
                slopes.append(error.sum(axis=0))
            found.append(slopes)
            if place:
                _, slope = ACTIVATIONS[self._dense[place - 1].activation]
                if slope is None:
                    raise ValueError("softmax can only be the last activation")
                error = (error @ layer.kernel.T) * slope(values[place])
        return [array for slopes in reversed(found) for array in slopes]

    def _error(self, given: Array, wanted: Array) -> Array:
        """By what the last layer added up."""
        loss, last = self.compile_args["loss"], self._dense[-1].activation
        out: Array
        if loss.endswith("categorical_crossentropy") and last == "softmax":
            out = (given - wanted) / len(given)
            return out
        if loss == "binary_crossentropy" and last == "sigmoid":
            out = (given - wanted) / given.size
            return out
        _, slope = ACTIVATIONS[last]
        if slope is None or loss.endswith("crossentropy"):
            raise ValueError(f"loss {loss} does not go with activation {last}")
        out = 2 * (given - wanted) / given.size * slope(given)
        return out


def _metric(name: str, given: Array, wanted: Array) -> float:
    if name == "mse":
        return float(((given - wanted) ** 2).mean())
    if given.shape[-1] == 1:
        return float(((given > 0.5) == (wanted > 0.5)).mean())
    return float((given.argmax(axis=-1) == wanted.argmax(axis=-1)).mean())


class _Optimizer:
    """The step from slopes to new weights; begins anew with every fit."""

    def __init__(self, arguments: Mapping[str, Any], weights: Sequence[Array]) -> None:
        self._rate = arguments["learning_rate"]
        self._adam = arguments["optimizer"] == "adam"
        self._first = [np.zeros_like(w) for w in weights]
        self._second = [np.zeros_like(w) for w in weights]
        self._steps = 0

    def __call__(self, weights: Sequence[Array], slopes: Sequence[Array]) -> list[Array]:
        if not self._adam:
            return [w - self._rate * s for w, s in zip(weights, slopes, strict=True)]
        self._steps += 1
        out = []
        for place, (w, s) in enumerate(zip(weights, slopes, strict=True)):
            self._first[place] = 0.9 * self._first[place] + 0.1 * s
            self._second[place] = 0.999 * self._second[place] + 0.001 * s * s
            mean = self._first[place] / (1 - 0.9**self._steps)
            spread = self._second[place] / (1 - 0.999**self._steps)
            out.append(w - self._rate * mean / (np.sqrt(spread) + _SMALL))
        return out


def model_from_json(text: str) -> Sequential:
    """What `Sequential.to_json` said. Raises ValueError."""
    try:
        described = json.loads(text)
        if described["class_name"] != _CLASS:
            raise ValueError(f"it is a {described['class_name']!r}")
        layers = [_layer(dict(layer)) for layer in described["config"]["layers"]]
        return Sequential(layers, seed=int(described["config"].get("seed", 0)))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this is no architecture of a NumPy model: {error}") from error


def _layer(config: dict[str, Any]) -> Dense | Flatten:
    kind = config.pop("layer")
    if kind == "Flatten":
        return Flatten(**config)
    if kind == "Dense":
        return Dense(**config)
    raise ValueError(f"unknown layer {kind!r}")
