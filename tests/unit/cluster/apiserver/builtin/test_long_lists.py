"""What the mends for long lists leave as it is: order, texts, and short lists shown whole."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.apply import fields
from corral.cluster.apiserver.builtin.strategy.volumewarnings import overlapping_path_warnings
from corral.cluster.apiserver.builtin.validation.fields import meta
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.pods import resources


def test_clashes_are_named_in_the_order_of_the_paths() -> None:
    items = [{"path": path} for path in ("a/b", "ab", "a", "a/b/c", "a-b", "a/b/", "a")]
    volume = {"name": "v", "configMap": {"name": "m", "items": items}}
    lead = 'volume "v" (ConfigMap "m"): overlapping paths: '
    assert [text.removeprefix(lead) for text in overlapping_path_warnings([volume])] == [
        '"a" with "a/b"',
        '"a/b/c" with "a/b"',
        '"a/b/c" with "a"',
        '"a/b" with "a/b"',
        '"a/b" with "a"',
        '"a/b" with "a/b/c"',
        '"a" with "a"',
        '"a" with "a/b/c"',
    ]


def test_errors_show_short_lists_whole() -> None:
    errs = Errors()
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "x", "uid": "u", "controller": True}
    meta._check_owners(errs, [ref, ref], "p")
    assert '"name":"x","uid":"u","controller":true}]: Only one' in str(errs[0])
    known = resources.ClaimNames({"b", "a"})
    resources._check_claims(errs, [{"name": "c"}], known, "p")
    assert str(errs[1]).endswith("pod.spec.resourceClaims: a, b")
    for _ in range(10_000):
        assert resources.NO_CLAIMS.listed() == " which is empty"


def test_sets_of_fields_are_merged_by_twos(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(a: fields.Fields, b: fields.Fields) -> fields.Fields:
        sizes.append(len(a))
        return {**a, **b}

    monkeypatch.setattr(fields, "union", counted)
    assert len(fields.union_of({f"f:{i}": {}} for i in range(800))) == 800
    assert sum(sizes) < 8000
    assert fields.union_of([]) == {}
