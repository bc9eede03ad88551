"""Status and Code, as kube-scheduler's framework has them.

Source: kube-scheduler v0.36 framework/interface.go
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

__all__ = ["Code", "Status"]


class Code(IntEnum):
    """What a plugin says of a pod on a node; the numbers are those of the framework."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


_REJECTING = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """A Code and why. A plugin that has nothing to say may return None for success.

    Attributes:
        code: what is said.
        reason: goes out to kube-scheduler, which counts equal ones together; keep it short and
            stable, without numbers that change.
        detail: for the log and for explanations; may vary, and makes no status a different one.
    """

    code: Code
    reason: str = ""
    detail: str = field(default="", compare=False)

    @classmethod
    def success(cls) -> Self:
        """Nothing stands in the way."""
        return cls(Code.SUCCESS)

    @classmethod
    def error(cls, reason: str, detail: str = "") -> Self:
        """The plugin cannot say; the attempt fails and is made again."""
        return cls(Code.ERROR, reason, detail)

    @classmethod
    def unschedulable(cls, reason: str, detail: str = "") -> Self:
        """The pod may not run here now; evicting pods may help."""
        return cls(Code.UNSCHEDULABLE, reason, detail)

    @classmethod
    def unresolvable(cls, reason: str, detail: str = "") -> Self:
        """The pod may not run here, whatever is evicted."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason, detail)

    @classmethod
    def wait(cls, reason: str = "", detail: str = "") -> Self:
        """From Permit: the pod is to be held until it is allowed."""
        return cls(Code.WAIT, reason, detail)

    @classmethod
    def skip(cls) -> Self:
        """From PreFilter, PreScore or Bind: this plugin has no part in the attempt."""
        return cls(Code.SKIP)

    @classmethod
    def pending(cls, reason: str, detail: str = "") -> Self:
        """The pod may not run until something outside the scheduler has happened."""
        return cls(Code.PENDING, reason, detail)

    @property
    def is_success(self) -> bool:
        """Whether nothing stands in the way."""
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Whether the pod may not run here, as opposed to a failure to say."""
        return self.code in _REJECTING
