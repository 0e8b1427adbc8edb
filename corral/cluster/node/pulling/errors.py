"""Why a module image is not here; reasons and messages are a kubelet's."""

from __future__ import annotations

__all__ = ["PullBackOff", "PullError"]


class PullError(Exception):
    """It could not be had; ``reason`` is that of the waiting container."""

    def __init__(self, message: str, *, reason: str = "ErrImagePull", retry_after: float) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after
        """Seconds."""


class PullBackOff(PullError):
    """It failed before, and is not tried again yet."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, reason="ImagePullBackOff", retry_after=retry_after)
