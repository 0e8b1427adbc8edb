"""Which VMs are orphans, and that nothing else is ever deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from corral.clouds import REQUEST_LABEL, CloudError, State, Sweeper, Transient, Vm, VmRef, vm_name
from corral.clouds.polling import changes
from corral.clouds.sweep import decide


def vm(name: str, state: State = State.RUNNING, **more: Any) -> Vm:
    return Vm(
        name=name,
        zone="z",
        id=f"id-{name}",
        state=state,
        labels={REQUEST_LABEL: f"request-{name}"},
        **more,
    )


@pytest.mark.parametrize(
    ("what", "since", "due"),
    [
        (vm("a"), {}, False),
        (vm("a"), {"id-a": 950.0}, False),
        (vm("a"), {"id-a": 900.0}, True),
        (vm("a", State.PENDING), {"id-a": 0.0}, True),
        (vm("a", State.TERMINATED), {"id-a": 0.0}, True),
        (vm("a", State.STOPPING), {"id-a": 0.0}, False),
        (vm("a", State.TERMINATED, raw_state="terminated"), {"id-a": 0.0}, False),
        (vm("owned"), {"id-owned": 0.0}, False),
        (vm("a"), {"id-a": 2000.0}, False),
    ],
)
def test_orphans(what: Vm, since: dict[str, float], due: bool) -> None:
    decision = decide([what], {"request-owned"}, since, now=1000.0, grace=100.0)
    assert [each.name for each in decision.delete] == (["a"] if due else [])


def test_a_vm_that_is_claimed_again_starts_anew() -> None:
    first = decide([vm("a")], set(), {}, now=0.0, grace=100.0)
    claimed = decide([vm("a")], {"request-a"}, first.unclaimed, now=99.0, grace=100.0)
    assert claimed.unclaimed == {}
    last = decide([vm("a")], set(), claimed.unclaimed, now=150.0, grace=100.0)
    assert last.delete == []


def test_a_vm_without_any_request_is_an_orphan() -> None:
    stray = replace(vm("a"), labels={})
    assert decide([stray], {"request-a"}, {"id-a": 0.0}, now=10.0, grace=5.0).delete == [stray]


class Provider:
    """A list of VMs, some of which cannot be deleted."""

    name = "listed"

    def __init__(self, *vms: Vm) -> None:
        self.vms = {each.name: each for each in vms}
        self.stuck: set[str] = set()
        self.story: list[str] = []

    async def list(self, owner: str) -> Sequence[Vm]:
        self.story.append("list")
        return list(self.vms.values())

    async def delete(self, ref: VmRef) -> None:
        if ref.name in self.stuck:
            raise Transient("not now")
        del self.vms[ref.name]


async def test_sweeping() -> None:
    provider = Provider(vm("a"), vm("b"), vm("owned"))
    provider.stuck.add("b")
    now = [0.0]

    async def claimed() -> set[str]:
        provider.story.append("claimed")
        return {"request-owned"}

    sweeper = Sweeper(provider, "o", claimed, grace=60.0, clock=lambda: now[0])  # type: ignore[arg-type]
    swept = await sweeper.sweep()
    assert (swept.deleted, swept.waiting) == ([], 2)
    assert provider.story == ["list", "claimed"]  # never the other way round
    now[0] = 60.0
    swept = await sweeper.sweep()
    assert [each.name for each in swept.deleted] == ["a"]
    assert isinstance(swept.failed["b"], CloudError)
    provider.stuck.clear()
    swept = await sweeper.sweep()
    assert [each.name for each in swept.deleted] == ["b"]
    assert list(provider.vms) == ["owned"]


def test_changes_from_outside() -> None:
    before = {each.name: each for each in (vm("lives"), vm("dies"), vm("goes"), vm("taken"))}
    before["dead"] = vm("dead", State.TERMINATED)
    after = [
        vm("lives"),
        vm("dies", State.STOPPING, raw_state="STOPPING"),
        vm("dead", State.TERMINATED),
        vm("new"),
        vm("met-dead", State.TERMINATED, preempted=False),
    ]
    notices = changes(before, after, now=5.0, taken=frozenset({"taken", "lives", "met-dead"}))
    assert [(each.vm, each.preempted, each.text) for each in notices] == [
        ("dies", None, "STOPPING"),
        ("goes", None, "no longer there"),
        ("met-dead", False, ""),
        ("taken", True, "no longer there"),
    ]


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("job", "vm", "0"), "job-vm-0"),
        (("Job_1", "VM.x"), "job-1-vm-x"),
        (("7", "up"), "vm-7-up"),
        (("--", ""), "vm"),
        (("a" * 61, "b"), "a" * 61 + "-b"),
    ],
)
def test_names(parts: tuple[str, ...], name: str) -> None:
    assert vm_name(*parts) == name


def test_shortened_names_differ_and_stay_the_same() -> None:
    names = [vm_name("a" * 80, number) for number in ("0", "1", "1")]
    assert all(len(name) == 63 for name in names)
    assert names[0] != names[1] == names[2]
