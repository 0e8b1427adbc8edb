"""A pod's status, from what its machine knows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corral.cluster.node.pod.slots import Slot, container_status, settle
from corral.cluster.node.pod.statuses import conditions_of, phase_of
from corral.cluster.node.timestamps import format_time
from corral.kube.types import Obj

__all__ = ["Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of a pod at one moment."""

    pod: Obj
    slots: Mapping[str, Slot]
    finished: bool
    """Nothing runs and nothing will."""
    sandbox: bool
    failure: tuple[str, str] | None
    """Reason and message of a pod that was failed from outside."""
    rejected: bool
    start_time: float
    ips: Sequence[str]

    def status(self, now: float, host_ips: Sequence[str]) -> Obj:
        """As a kubelet would write it."""
        if self.rejected:
            return self._head("Failed") | self._kept("conditions", "qosClass")
        statuses = self._containers()
        phase = self._phase(statuses)
        result = self._head(phase)
        result["conditions"] = conditions_of(
            self.pod,
            statuses,
            phase=phase,
            sandbox=self.sandbox and not self.finished,
            now=format_time(now),
        )
        for single, several, ips in (
            ("hostIP", "hostIPs", host_ips),
            ("podIP", "podIPs", self.ips),
        ):
            if ips:
                result |= {single: ips[0], several: [{"ip": ip} for ip in ips]}
        result |= self._kept("qosClass")
        init = [slot.name for slot in self.slots.values() if slot.kind != "main"]
        if init:
            result["initContainerStatuses"] = [statuses[name] for name in init]
        main = sorted(slot.name for slot in self.slots.values() if slot.kind == "main")
        result["containerStatuses"] = [statuses[name] for name in main]
        return result

    def _head(self, phase: str) -> Obj:
        result: Obj = {"phase": phase, "startTime": format_time(self.start_time)}
        if self.failure is not None:
            result |= {k: v for k, v in zip(("reason", "message"), self.failure, strict=True) if v}
        if generation := self.pod["metadata"].get("generation"):
            result["observedGeneration"] = generation
        return result

    def _kept(self, *names: str) -> Obj:
        """What others have written and stays."""
        old = self.pod.get("status") or {}
        return {name: old[name] for name in names if old.get(name)}

    def _containers(self) -> dict[str, Obj]:
        initializing = any(slot.kind != "main" for slot in self.slots.values())
        statuses = {
            name: container_status(slot, initializing=initializing)
            for name, slot in self.slots.items()
        }
        if self.finished and self._was_initialized():
            for name, status in statuses.items():
                settle(self.slots[name], status)
        return statuses

    def _was_initialized(self) -> bool:
        """Whether main containers had their turn."""
        before = [slot for slot in self.slots.values() if slot.kind != "main"]
        if not before or any(s.attempt for s in self.slots.values() if s.kind == "main"):
            return True
        last = before[-1]
        if last.kind == "sidecar":
            return last.phase == "running" and last.started
        return last.phase == "ended" and last.code == 0

    def _phase(self, statuses: Mapping[str, Obj]) -> str:
        initialized = any(slot.attempt for slot in self.slots.values() if slot.kind == "main")
        spec = self.pod["spec"]
        phase = phase_of(spec, statuses, terminal=self.finished, initialized=initialized)
        over = phase in ("Succeeded", "Failed")
        return "Failed" if self.failure is not None or (self.finished and not over) else phase
