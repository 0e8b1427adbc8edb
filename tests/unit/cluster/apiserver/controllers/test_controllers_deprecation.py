"""What clients of a deprecated version of a custom kind are told."""

from typing import Any

import pytest

from corral.cluster.apiserver.controllers.crds import deprecation_warning


def version(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "served": True, **fields}


@pytest.mark.parametrize(
    ("others", "asked", "expected"),
    [
        pytest.param([], version("v1"), "", id="not deprecated"),
        pytest.param([], version("v1", deprecated=True), "g/v1 K is deprecated", id="nothing else"),
        pytest.param(
            [version("v1alpha1"), version("v1"), version("v2"), version("v3", served=False)],
            version("v1beta1", deprecated=True),
            "g/v1beta1 K is deprecated; use g/v2 K",
            id="the newest served one",
        ),
        pytest.param(
            [version("v2", deprecated=True), version("v1alpha1")],
            version("v1", deprecated=True),
            "g/v1 K is deprecated",
            id="no better one",
        ),
        pytest.param(
            [version("v2")],
            version("v1", deprecated=True, deprecationWarning="go away"),
            "go away",
            id="words of its own",
        ),
    ],
)
def test_warnings(others: list[dict[str, Any]], asked: dict[str, Any], expected: str) -> None:
    spec = {"group": "g", "names": {"kind": "K"}, "versions": [*others, asked]}
    assert deprecation_warning(spec, asked) == expected
