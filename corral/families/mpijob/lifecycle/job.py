"""JobController: judges MPIJobs, remembers what is worth it, and has a `Run` look at each."""

from __future__ import annotations

from corral.families.mpijob.lifecycle.memory import Memory
from corral.families.mpijob.lifecycle.run import Run, Tools
from corral.families.mpijob.lifecycle.status import REASON_INVALID, Draft, is_over, shortened
from corral.families.mpijob.validation import judge
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj
from corral.runtime import Result, key_of, uid_of

__all__ = ["JobController"]


class JobController:
    """All jobs of one operator."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._memories: dict[str, tuple[str, Memory]] = {}
        """By key: the UID of the job, and what is known about it."""

    def forget(self, key: str) -> None:
        """The job is gone."""
        self.rest(key)
        self._tools.teller.gone(key)

    def rest(self, key: str) -> None:
        """The job is over: what was noted about it is of no more use."""
        known = self._memories.pop(key, None)
        if known is not None:
            self._tools.resources.forget(known[0])
            self._tools.caches.forget(known[0])

    def say_deleted(self, job: Obj) -> None:
        """Somebody deletes the job; told once."""
        self._tools.teller.deleted(job, self._memory(job))

    async def sync(self, job: Obj) -> Result | None:
        """Bring the job one step on.

        Raises:
            Conflict: the job has changed since it was read.
            ApiError, KubeConnectionError: something that may pass.
        """
        memory = self._memory(job)
        view = self._judged(job, memory)
        if view is None:
            await self._hold(job, memory)
            return None
        return await Run(self._tools, job, view, memory).carry_out()

    def _memory(self, job: Obj) -> Memory:
        key, uid = key_of(job), uid_of(job)
        known = self._memories.get(key)
        if known is None or known[0] != uid:
            known = self._memories[key] = (uid, Memory())
        return known[1]

    def _judged(self, job: Obj, memory: Memory) -> JobView | None:
        """The job as builders see it; none where it is invalid. Judged once per change."""
        metadata = job["metadata"]
        judged = (metadata.get("generation"), metadata.get("labels"), metadata.get("annotations"))
        if memory.judged != judged:
            memory.judged = judged
            memory.refusals, memory.retry_at = 0, 0.0
            memory.problems = judge(job).errors
            memory.view = None if memory.problems else JobView.of(job)
        return memory.view

    async def _hold(self, job: Obj, memory: Memory) -> None:
        """Say what is wrong and do nothing until it is changed; what runs is left alone."""
        if is_over(job.get("status") or {}):
            return
        texts = [str(problem) for problem in memory.problems]
        found = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        message = shortened(f"Found validation errors: {found}")
        draft = Draft(job, self._tools.wall())
        draft.invalid(message)
        await self._tools.teller.write(job, draft.status)
        if draft.status == draft.old:  # else the change has said so
            self._tools.teller.warn(job, memory, REASON_INVALID, message)
        memory.said[REASON_INVALID] = message
