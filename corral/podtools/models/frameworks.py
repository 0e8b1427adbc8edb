"""Models of every framework behind one interface.

`build` runs the code of whoever made the model, and `revive` may: call them only where that code
can do no harm (`corral.podtools.confine`). A framework is imported when a model of it is met.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Metrics", "Model", "ModelError", "Source", "build", "describe", "revive", "shape_text"]

Array = NDArray[Any]
Metrics = dict[str, dict[str, list[float]]]
"""``{"training": {metric: [by epoch]}, "validation": {…}}``."""
_BACKENDS: Final = ("tensorflow", "torch", "jax")
"""Of Keras, in the order in which they are chosen."""


class ModelError(Exception):
    """The code leaves no model that can be trained; one line that says why."""


class Source:
    """What somebody wrote: code that leaves ``model``."""

    def __init__(
        self, framework: str, code: str, imports: str = "", *, distributed: bool = False
    ) -> None:
        self.framework = framework
        self.imports = imports
        self.code = code
        self.distributed = distributed


class Model(Protocol):
    """A model that can be trained; weights are arrays in the framework's own order."""

    @property
    def input_shape(self) -> tuple[int, ...]: ...

    @property
    def output_shape(self) -> tuple[int, ...]: ...

    def architecture(self) -> str:
        """What makes the same model without its code; empty where only the code does."""

    def compile_args(self) -> dict[str, Any]: ...

    def weights(self) -> list[Array]: ...

    def set_weights(self, weights: Sequence[Array]) -> None: ...

    def fit(
        self,
        x: Array,
        y: Array,
        *,
        batch: int,
        options: Mapping[str, Any],
        validation: tuple[Array, Array] | None,
        seed: int,
    ) -> Metrics: ...

    def evaluate(self, x: Array, y: Array) -> dict[str, float]: ...

    def predict(self, x: Array) -> Array: ...


def shape_text(shape: Sequence[int | None]) -> str:
    """As datasources spell it: ``(None, 28, 28)`` is ``28 28``."""
    return " ".join(str(n) for n in shape if n is not None)


def build(source: Source) -> Model:
    """Run the code and take its ``model``. Raises ModelError."""
    if source.framework == "numpy":
        return _NumpyModel(_run(source, _numpy_names()))
    if source.framework == "tf":
        return _KerasModel(_run(source, _keras_names()))
    if source.framework == "pth":
        return _TorchModel(_run(source, _torch_names()))
    raise ModelError(f"unknown framework {source.framework!r}: use tf, pth or numpy")


def revive(
    framework: str, architecture: str, compile_args: Mapping[str, Any], source: Source | None = None
) -> Model:
    """The model of an architecture, or of its code where it has none. Raises ModelError."""
    if not architecture:
        if source is None:
            raise ModelError(f"a {framework} model travels as its code, and there is none")
        return build(source)
    try:
        if framework == "numpy":
            from corral.podtools.models.layers import model_from_json

            model = model_from_json(architecture)
            model.compile(**compile_args)
            return _NumpyModel(model)
        keras = _keras()
        made = keras.models.model_from_json(architecture)
        made.compile(**_keras_arguments(keras, compile_args))
        return _KerasModel(made)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"the architecture makes no model: {_words(error)}") from error


def _run(source: Source, names: dict[str, Any]) -> Any:
    code = source.code
    if source.distributed:
        code = _named(code)
    for what, text in (("imports", source.imports), ("code", code)):
        try:
            exec(compile(text, f"<{what} of the model>", "exec"), names)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise ModelError(f"the {what} of the model failed: {_words(error)}") from error
    if names.get("model") is None:
        raise ModelError("the code of the model leaves no variable `model`")
    return names["model"]


def _named(code: str) -> str:
    """The last line of a part of a model is an expression: that is the model."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise ModelError(f"the code of the model failed: {_words(error)}") from error
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        target = ast.copy_location(ast.Name("model", ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return ast.unparse(ast.fix_missing_locations(tree))


def _words(error: BaseException) -> str:
    message = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


# --- NumPy -------------------------------------------------------------------------------------


def _numpy_names() -> dict[str, Any]:
    from corral.podtools.models import layers

    names = {name: getattr(layers, name) for name in layers.__all__}
    return {"np": np, "numpy": np, "layers": layers, **names}


class _NumpyModel:
    def __init__(self, model: Any) -> None:
        from corral.podtools.models.layers import Sequential

        if not isinstance(model, Sequential):
            raise ModelError(f"`model` is a {type(model).__name__}, not a Sequential")
        if not model.compile_args:
            raise ModelError("the model is not compiled: end its code with model.compile(…)")
        self._model = model

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self._model.input_shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self._model.output_shape

    def architecture(self) -> str:
        return self._model.to_json()

    def compile_args(self) -> dict[str, Any]:
        return dict(self._model.compile_args)

    def weights(self) -> list[Array]:
        return self._model.get_weights()

    def set_weights(self, weights: Sequence[Array]) -> None:
        self._model.set_weights(weights)

    def fit(
        self,
        x: Array,
        y: Array,
        *,
        batch: int,
        options: Mapping[str, Any],
        validation: tuple[Array, Array] | None,
        seed: int,
    ) -> Metrics:
        names = ("epochs", "shuffle", "mu", "steps_per_epoch")
        known = {name: options[name] for name in names if name in options}
        history = self._model.fit(
            x, y, batch_size=batch, validation_data=validation, seed=seed, **known
        )
        return _parted(history)

    def evaluate(self, x: Array, y: Array) -> dict[str, float]:
        return self._model.evaluate(x, y)

    def predict(self, x: Array) -> Array:
        return self._model.predict(x)


def _parted(history: Mapping[str, Sequence[float]]) -> Metrics:
    """Keras names what it measured on validation data ``val_…``."""
    out: Metrics = {"training": {}, "validation": {}}
    for name, values in history.items():
        part = "validation" if name.startswith("val_") else "training"
        out[part][name.removeprefix("val_")] = [float(value) for value in values]
    return out


# --- Keras -------------------------------------------------------------------------------------


def _keras() -> Any:
    if "KERAS_BACKEND" not in os.environ:
        found = next((name for name in _BACKENDS if find_spec(name) is not None), "")
        if not found:
            raise ModelError("Keras needs tensorflow, torch or jax in the pod's image")
        os.environ["KERAS_BACKEND"] = found
    try:
        return import_module("keras")
    except ImportError as error:
        raise ModelError(f"Keras is not in the pod's image: {error}") from error


def _keras_names() -> dict[str, Any]:
    names = {"keras": _keras(), "np": np}
    if find_spec("tensorflow") is not None:
        names["tf"] = import_module("tensorflow")
    return names


def _keras_arguments(keras: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in arguments.items() if k in ("loss", "metrics")}
    optimizer = arguments.get("optimizer") or "sgd"
    if isinstance(optimizer, str):
        optimizer = {"class_name": optimizer, "config": {}}
    config = dict(optimizer.get("config") or {})
    if arguments.get("learning_rate"):
        config["learning_rate"] = arguments["learning_rate"]
    out["optimizer"] = keras.optimizers.get({**optimizer, "config": config})
    return out


class _KerasModel:
    def __init__(self, model: Any) -> None:
        if not all(hasattr(model, name) for name in ("fit", "get_weights", "to_json")):
            raise ModelError(f"`model` is a {type(model).__name__}, not a Keras model")
        if getattr(model, "optimizer", None) is None:
            raise ModelError("the model is not compiled: end its code with model.compile(…)")
        if not getattr(model, "built", False) or not model.get_weights():
            raise ModelError("the model has no weights yet: give its first layer an input shape")
        self._model = model

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self._model.input_shape if n is not None)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self._model.output_shape if n is not None)

    def architecture(self) -> str:
        return str(self._model.to_json())

    def compile_args(self) -> dict[str, Any]:
        keras = _keras()
        found = self._model.get_compile_config() or {}
        optimizer = keras.optimizers.serialize(self._model.optimizer)
        config = {k: v for k, v in optimizer["config"].items() if isinstance(v, str | int | float)}
        return {
            "optimizer": {"class_name": optimizer["class_name"], "config": config},
            "loss": _plain(found.get("loss")),
            "metrics": _plain(found.get("metrics")) or [],
        }

    def weights(self) -> list[Array]:
        return [np.asarray(array) for array in self._model.get_weights()]

    def set_weights(self, weights: Sequence[Array]) -> None:
        self._model.set_weights(list(weights))

    def fit(
        self,
        x: Array,
        y: Array,
        *,
        batch: int,
        options: Mapping[str, Any],
        validation: tuple[Array, Array] | None,
        seed: int,
    ) -> Metrics:
        _keras().utils.set_random_seed(seed)
        known = ("epochs", "shuffle", "steps_per_epoch", "class_weight", "initial_epoch")
        chosen = {k: options[k] for k in known if k in options}
        fitted = self._model.fit(
            x, y, batch_size=batch, validation_data=validation, verbose=0, **chosen
        )
        return _parted(fitted.history)

    def evaluate(self, x: Array, y: Array) -> dict[str, float]:
        found = self._model.evaluate(x, y, verbose=0, return_dict=True)
        return {name: float(value) for name, value in found.items()}

    def predict(self, x: Array) -> Array:
        return np.asarray(self._model.predict(x, verbose=0))


def _plain(value: Any) -> Any:
    """What JSON can say of it; names of losses and metrics rather than what they are made of."""
    if isinstance(value, dict) and "class_name" in value:
        config = value.get("config")
        named = config.get("name") if isinstance(config, dict) else None
        return named or value["class_name"]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float) or value is None else str(value)


# --- PyTorch -----------------------------------------------------------------------------------


def _torch_names() -> dict[str, Any]:
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise ModelError(f"PyTorch is not in the pod's image: {error}") from error
    return {"torch": torch, "nn": torch.nn, "np": np}


class _TorchModel:
    def __init__(self, model: Any) -> None:
        self._torch = import_module("torch")
        if not isinstance(model, self._torch.nn.Module):
            raise ModelError(f"`model` is a {type(model).__name__}, not an nn.Module")
        for name in ("loss_fn", "optimizer"):
            if not callable(getattr(model, name, None)):
                raise ModelError(f"the model has no method {name}()")
        self._model = model

    @property
    def input_shape(self) -> tuple[int, ...]:
        message = getattr(self._model, "input_shape", None)
        if message:
            return tuple(int(n) for n in message)
        first = next((m for m in self._model.modules() if hasattr(m, "in_features")), None)
        if first is None:
            raise ModelError("the model does not say its input_shape")
        return (int(first.in_features),)

    @property
    def output_shape(self) -> tuple[int, ...]:
        self._model.eval()
        with self._torch.no_grad():
            given = self._model(self._torch.zeros((1, *self.input_shape)))
        return tuple(int(n) for n in given.shape[1:])

    def architecture(self) -> str:
        return ""

    def compile_args(self) -> dict[str, Any]:
        return {}

    def weights(self) -> list[Array]:
        state = self._model.state_dict()
        return [array.detach().cpu().numpy() for array in state.values()]

    def set_weights(self, weights: Sequence[Array]) -> None:
        state = self._model.state_dict()
        if len(state) != len(weights):
            raise ValueError(f"the model has {len(state)} arrays, not {len(weights)}")
        made = {
            name: self._torch.from_numpy(np.array(given)).to(mine.dtype).reshape(mine.shape)
            for (name, mine), given in zip(state.items(), weights, strict=True)
        }
        self._model.load_state_dict(made)

    def fit(
        self,
        x: Array,
        y: Array,
        *,
        batch: int,
        options: Mapping[str, Any],
        validation: tuple[Array, Array] | None,
        seed: int,
    ) -> Metrics:
        torch = self._torch
        torch.manual_seed(seed)
        loss_fn, optimizer = self._model.loss_fn(), self._model.optimizer()
        samples, labels = torch.from_numpy(np.array(x)), self._labels(y)
        history: dict[str, list[float]] = {}
        for _ in range(int(options.get("max_epochs", options.get("epochs", 1)))):
            self._model.train()
            for chosen in torch.randperm(len(samples)).split(batch):
                if len(chosen) == 1 < len(samples):
                    continue  # layers that normalise a batch cannot do so with one sample
                optimizer.zero_grad()
                loss_fn(self._model(samples[chosen]), labels[chosen]).backward()
                optimizer.step()
            for name, value in self.evaluate(x, y).items():
                history.setdefault(name, []).append(value)
            if validation is not None and len(validation[0]):
                for name, value in self.evaluate(*validation).items():
                    history.setdefault(f"val_{name}", []).append(value)
        return _parted(history)

    def _labels(self, y: Array) -> Any:
        """Numbers of classes where every label is one; one-hot labels are turned into them."""
        labels = np.array(y)
        if labels.ndim == 2 and labels.shape[1] > 1 and np.isin(labels, (0, 1)).all():
            if (labels.sum(axis=1) == 1).all():
                labels = labels.argmax(axis=1)
        whole = np.issubdtype(labels.dtype, np.integer)
        made = self._torch.from_numpy(labels)
        return made.long() if whole else made

    def evaluate(self, x: Array, y: Array) -> dict[str, float]:
        torch = self._torch
        self._model.eval()
        with torch.no_grad():
            given, wanted = self._model(torch.from_numpy(np.array(x))), self._labels(y)
            out = {"loss": float(self._model.loss_fn()(given, wanted))}
            if wanted.dtype == torch.int64 and given.ndim == 2:
                out["accuracy"] = float((given.argmax(dim=1) == wanted).float().mean())
        return out

    def predict(self, x: Array) -> Array:
        self._model.eval()
        with self._torch.no_grad():
            return np.asarray(self._model(self._torch.from_numpy(np.array(x))).numpy())


def describe(model: Model) -> dict[str, Any]:
    """What is known of a model without its weights, as plain data."""
    layers = [{"shape": list(w.shape), "dtype": str(w.dtype)} for w in model.weights()]
    return json.loads(  # type: ignore[no-any-return]
        json.dumps(
            {
                "input_shape": shape_text(model.input_shape),
                "output_shape": shape_text(model.output_shape),
                "parameters": sum(int(np.prod(layer["shape"])) for layer in layers),
                "layers": layers,
                "architecture": model.architecture(),
                "compile_args": model.compile_args(),
            }
        )
    )
