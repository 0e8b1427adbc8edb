"""Labels for data that has none: what a model is certain of (semi-supervised training)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["NoClasses", "certain", "probabilities"]

Array = NDArray[Any]
_CLOSE: Final = 1e-3


class NoClasses(ValueError):
    """A model that tells no classes apart; one line that says why."""


def probabilities(answers: Array) -> Array:
    """A model's answers as shares of certainty, whether it gives these or scores."""
    scores = np.asarray(answers, np.float64)
    within = bool(((scores >= 0) & (scores <= 1)).all())
    if scores.shape[1] == 1:
        return scores if within else 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
    if within and np.allclose(scores.sum(axis=1), 1, atol=_CLOSE):
        return scores
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def certain(answers: Array, like: Array, confidence: float) -> tuple[Array, Array]:
    """Which samples a model is certain of, and their labels as others' are written.

    Args:
        answers: what it gives, a row for each sample.
        like: labels that somebody gave: one-hot, numbers of classes, or 0 and 1.
        confidence: how certain it must be, up to 1.

    Raises:
        NoClasses: labels cannot be made of such answers.
    """
    if answers.ndim != 2 or not answers.shape[1]:
        raise NoClasses("labels can be made up for models that tell classes apart alone")
    shares = probabilities(answers)
    if shares.shape[1] == 1:
        if not np.isin(like, (0, 1)).all():
            raise NoClasses("the labels are neither 0 nor 1: none can be made up")
        chosen = (shares[:, 0] >= 0.5).astype(np.int64)
        sure = np.maximum(shares[:, 0], 1 - shares[:, 0]) >= confidence
        return sure, chosen[sure].astype(like.dtype).reshape(-1, *like.shape[1:])
    chosen, sure = shares.argmax(axis=1), shares.max(axis=1) >= confidence
    if like.ndim == 2 and like.shape[1] == shares.shape[1]:
        return sure, np.eye(shares.shape[1], dtype=like.dtype)[chosen[sure]]
    flat = like.reshape(len(like), -1)
    if flat.shape[1] != 1 or not (flat == np.floor(flat)).all():
        raise NoClasses("the labels are no classes: none can be made up")
    return sure, chosen[sure].astype(like.dtype).reshape(-1, *like.shape[1:])
