"""ShortestFirst: of pods of equal priority the one whose work is said to take least goes first."""

import math
from typing import Annotated

from pydantic import BaseModel, Field

from kubextend.core import Pod
from kubextend.framework import QueuedPodInfo, Status

__all__ = ["ShortestFirst", "ShortestFirstArgs"]


class ShortestFirstArgs(BaseModel, extra="forbid"):
    """What pluginConfig may say.

    Attributes:
        annotation: how long a pod's work takes, in seconds.
        longest_seconds: a pod that says more is held back until somebody changes it.
    """

    annotation: Annotated[str, Field(min_length=1)] = "example.com/expected-seconds"
    longest_seconds: Annotated[float, Field(gt=0)] = 24 * 3600.0


class ShortestFirst:
    """Higher priority first, then less work, then who waits longer; unknown work comes last."""

    name = "ShortestFirst"
    Args = ShortestFirstArgs

    def __init__(self, args: ShortestFirstArgs) -> None:
        self._args = args

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Keys of numbers that are compared as a whole are always a strict weak order."""
        return self._key(a) < self._key(b)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Held back are those that say more than is allowed; those that say nothing are not."""
        seconds = self._seconds(pod)
        if seconds is None or seconds <= self._args.longest_seconds:
            return None
        return Status.unschedulable("its work takes longer than is allowed")

    def _key(self, info: QueuedPodInfo) -> tuple[int, float, float]:
        seconds = self._seconds(info.pod)
        work = math.inf if seconds is None else seconds
        return -(info.pod.priority or 0), work, info.timestamp

    def _seconds(self, pod: Pod) -> float | None:
        """What the pod says; None where that is nothing, or no number of seconds."""
        try:
            seconds = float(pod.annotations.get(self._args.annotation, ""))
        except ValueError:
            return None
        return seconds if 0 <= seconds < math.inf else None
