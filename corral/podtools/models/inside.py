"""What runs in a confined process: everything that touches a model's own code.

Each function takes a list of words, reads and writes files of the folders it was given, and returns
an exit code. The last line of `check` says why that is not 0; `work` and `answer` are kept and
asked again and again. See `corral.podtools.confine`.
"""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.learning.codecs.safetensors import SafeTensors
from corral.learning.errors import UpdateRejected
from corral.learning.tensors import Model as Tensors
from corral.learning.tensors import Tensor
from corral.podtools.confine import Channel
from corral.podtools.models.confusion import confusion
from corral.podtools.models.frameworks import (
    Metrics,
    Model,
    ModelError,
    Source,
    build,
    describe,
    revive,
)
from corral.podtools.models.pseudo import certain

__all__ = ["answer", "check", "read_metadata", "read_weights", "work", "write_weights"]

Array = NDArray[Any]
MAX_HEADER: Final = 100_000_000


def write_weights(
    path: Path, weights: Sequence[Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Arrays in their order, as safetensors named by it; whole numbers as float64.

    With ``metadata`` the file is a whole model: what `describe` said of it, by `read_metadata`.
    """
    floats = [a if np.issubdtype(a.dtype, np.floating) else a.astype(np.float64) for a in weights]
    tensors = (Tensor.of(str(place), array) for place, array in enumerate(floats))
    data = SafeTensors().encode(Tensors(tuple(tensors)))
    if metadata is None:
        path.write_bytes(data)
        return
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    text = json.dumps({"__metadata__": dict(metadata), **header}).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.writelines((struct.pack("<Q", len(text)), text, memoryview(data)[8 + size :]))


def read_weights(path: Path) -> list[Array]:
    """What `write_weights` wrote. Raises ValueError."""
    try:
        found = {tensor.name: tensor.array for tensor in SafeTensors().decode(path.read_bytes())}
        return [found[str(place)] for place in range(len(found))]
    except (UpdateRejected, KeyError) as error:
        raise ValueError(f"these are no weights of a model: {error}") from error


def read_metadata(path: Path) -> dict[str, str]:
    """What a model's file says of it. Raises ValueError."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MAX_HEADER:
            raise ValueError("this is no file of a model")
        described = json.loads(file.read(size)).get("__metadata__") or {}
    if not isinstance(described, dict) or not all(isinstance(v, str) for v in described.values()):
        raise ValueError("this is no file of a model")
    return described


def check(words: list[str]) -> int:
    """SOURCE OUT: run the code, write down what it makes and its first weights."""
    source, out = Path(words[0]), Path(words[1])
    try:
        model = build(_source(source))
        described = describe(model)
        x = np.zeros((2, *model.input_shape), np.float32)
        given = model.predict(x)
        if not np.isfinite(given).all():
            raise ModelError("the model gives values that are not finite for zeros")
    except ModelError as error:
        _say(str(error))
        return 1
    source_of = json.loads((source / "spec.json").read_text())
    metadata = {
        "framework": source_of["framework"],
        "architecture": described["architecture"],
        "compile_args": json.dumps(described["compile_args"]),
        "input_shape": described["input_shape"],
        "output_shape": described["output_shape"],
    }
    write_weights(out / "weights.safetensors", model.weights(), metadata)
    (out / "model.json").write_text(json.dumps(described))
    return 0


def work(words: list[str]) -> int:
    """GIVEN OUT: train or test, as often as it is asked; what takes long to load stays loaded."""
    channel = Channel()
    given, out = Path(words[0]), Path(words[1])
    channel.ready()
    for request in channel.requests():
        try:
            WORKS[request.decode()](given, out)
        except Exception as error:  # the model's own code may raise anything
            channel.refuse(f"{type(error).__name__}: {error}")
        else:
            channel.answer(b"")
    return 0


def _train(given: Path, out: Path) -> None:
    """Train the model of ``given/plan.json`` on its data; leaves weights and metrics."""
    plan, model = _begun(given)
    x, y = _data(given, "train")
    validation = _data(given, "validation") if plan.get("validation") else None
    metrics = _fitted(model, plan, x, y, validation)
    if plan.get("unsupervised_rounds"):
        unlabelled = np.load(given / "unlabelled.npy", allow_pickle=False, mmap_mode="r")
        more, taken = _fitted_on(unlabelled, model, plan, x, y, validation)
        metrics = more or metrics
        metrics["training"]["pseudo_labelled"] = taken
    weights = model.weights()
    if not all(np.isfinite(array).all() for array in weights):
        raise ModelError("training gave weights that are not finite: the learning rate is high")
    write_weights(out / "weights.safetensors", weights)
    (out / "metrics.json").write_text(json.dumps(metrics))


def _test(given: Path, out: Path) -> None:
    """How well the model does on its test data, and what it takes for what."""
    _, model = _begun(given)
    x, y = _data(given, "test")
    found = {"metrics": model.evaluate(x, y), "matrix": confusion(model.predict(x), y)}
    (out / "test.json").write_text(json.dumps(found))


WORKS: Final[Mapping[str, Callable[[Path, Path], None]]] = {"train": _train, "test": _test}
"""What `work` can be asked for."""


def _begun(given: Path) -> tuple[dict[str, Any], Model]:
    """The plan, and its model with the weights that it begins from."""
    plan: dict[str, Any] = json.loads((given / "plan.json").read_text())
    model = _revived(given, plan)
    model.set_weights(read_weights(given / "weights.safetensors"))
    return plan, model


def answer(words: list[str]) -> int:
    """GIVEN: load the model of ``given/plan.json``, and answer arrays with arrays."""
    channel = Channel()
    given = Path(words[0])
    try:
        _, model = _begun(given)
    except (ModelError, ValueError, TypeError) as error:
        channel.refuse(f"{type(error).__name__}: {error}")
        return 1
    channel.ready()
    for request in channel.requests():
        try:
            data = io.BytesIO()
            x = np.load(io.BytesIO(request), allow_pickle=False)
            np.save(data, np.asarray(model.predict(x)), allow_pickle=False)
        except Exception as error:  # the model's own code may raise anything
            channel.refuse(f"{type(error).__name__}: {error}")
        else:
            channel.answer(data.getvalue())
    return 0


def _say(why: str) -> None:
    sys.stdout.write(" ".join(why.split())[:2000] + "\n")
    sys.stdout.flush()


def _source(folder: Path) -> Source:
    spec = json.loads((folder / "spec.json").read_text())
    texts = {
        name: (folder / name).read_text() if (folder / name).exists() else ""
        for name in ("code", "imports")
    }
    return Source(
        spec["framework"],
        texts["code"],
        texts["imports"],
        distributed=bool(spec.get("distributed")),
    )


def _revived(given: Path, plan: Mapping[str, Any]) -> Model:
    source = _source(given / "source") if (given / "source").exists() else None
    arguments = plan.get("compile_args") or {}
    return revive(plan["framework"], plan.get("architecture") or "", arguments, source)


def _fitted(
    model: Model,
    plan: Mapping[str, Any],
    x: Array,
    y: Array,
    validation: tuple[Array, Array] | None,
    again: int = 0,
) -> Metrics:
    return model.fit(
        x,
        y,
        batch=int(plan["batch"]),
        options=plan.get("options") or {},
        validation=validation,
        seed=int(plan.get("seed", 0)) + again,
    )


def _fitted_on(
    unlabelled: Array,
    model: Model,
    plan: Mapping[str, Any],
    x: Array,
    y: Array,
    validation: tuple[Array, Array] | None,
) -> tuple[Metrics | None, list[float]]:
    """Train with labels that the model itself is certain of, again and again; how many each."""
    metrics: Metrics | None = None
    taken: list[float] = []
    for number in range(int(plan["unsupervised_rounds"])):
        sure, labels = certain(model.predict(unlabelled), y, float(plan["confidence"]))
        taken.append(float(len(labels)))
        if not len(labels):
            break
        more, named = np.concatenate([x, unlabelled[sure]]), np.concatenate([y, labels])
        metrics = _fitted(model, plan, more, named, validation, number + 1)
    return metrics, taken


def _data(folder: Path, part: str) -> tuple[Array, Array]:
    x = np.load(folder / f"{part}_x.npy", allow_pickle=False, mmap_mode="r")
    y = np.load(folder / f"{part}_y.npy", allow_pickle=False, mmap_mode="r")
    return x, y
