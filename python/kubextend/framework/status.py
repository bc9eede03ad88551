"""Status and Code of kube-scheduler's framework.

Source: kube-scheduler v0.36 framework/interface.go
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

__all__ = ["Code", "Status"]


class Code(IntEnum):
    """A plugin's verdict on a pod and a node; the numbers are those of the framework."""

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
    """A Code and the reason for it. A plugin may return None for success.

    Attributes:
        code: the verdict.
        reason: the text for kube-scheduler, which counts equal texts together; keep it short and
            stable, without numbers that change.
        detail: the text for the log and for explanations; may vary, and does not count for
            equality.
    """

    code: Code
    reason: str = ""
    detail: str = field(default="", compare=False)

    @classmethod
    def success(cls) -> Self:
        """Return the status for success."""
        return cls(Code.SUCCESS)

    @classmethod
    def error(cls, reason: str, detail: str = "") -> Self:
        """Return the status of a plugin that cannot judge: the attempt fails and is repeated."""
        return cls(Code.ERROR, reason, detail)

    @classmethod
    def unschedulable(cls, reason: str, detail: str = "") -> Self:
        """Return a rejection for now: evicting pods may help."""
        return cls(Code.UNSCHEDULABLE, reason, detail)

    @classmethod
    def unresolvable(cls, reason: str, detail: str = "") -> Self:
        """Return a rejection that no eviction can change."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason, detail)

    @classmethod
    def wait(cls, reason: str = "", detail: str = "") -> Self:
        """Return Permit's status for a pod that is held until it is allowed."""
        return cls(Code.WAIT, reason, detail)

    @classmethod
    def skip(cls) -> Self:
        """Return the status of a PreFilter, PreScore or Bind plugin that does not take part."""
        return cls(Code.SKIP)

    @classmethod
    def pending(cls, reason: str, detail: str = "") -> Self:
        """Return a rejection until something outside of the scheduler has happened."""
        return cls(Code.PENDING, reason, detail)

    @property
    def is_success(self) -> bool:
        """Whether the status is a success."""
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Whether the status is a rejection, and not a failure to judge."""
        return self.code in _REJECTING
