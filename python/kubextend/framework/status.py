"""Status and Code: the result of a plugin's call, as in kube-scheduler's framework.

Source: kube-scheduler v0.36 framework/interface.go
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

__all__ = ["Code", "Status"]


class Code(IntEnum):
    """The kind of a plugin's result; the numbers are those of kube-scheduler's framework."""

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
    """The result of a plugin's call: a Code and a reason. A plugin may return None for success.

    Attributes:
        code: the kind of the result.
        reason: the text for kube-scheduler, which counts the nodes with equal texts together; keep
            the text short and stable, without numbers that change.
        detail: the text for the log; may vary, and is ignored when two statuses are compared.
    """

    code: Code
    reason: str = ""
    detail: str = field(default="", compare=False)

    @classmethod
    def success(cls) -> Self:
        """Return a status with the code SUCCESS."""
        return cls(Code.SUCCESS)

    @classmethod
    def error(cls, reason: str, detail: str = "") -> Self:
        """Return a status with the code ERROR, for a plugin that cannot decide.

        The attempt to schedule the pod fails, and kube-scheduler repeats it later.
        """
        return cls(Code.ERROR, reason, detail)

    @classmethod
    def unschedulable(cls, reason: str, detail: str = "") -> Self:
        """Return a status with the code UNSCHEDULABLE: a rejection that evicting pods may end."""
        return cls(Code.UNSCHEDULABLE, reason, detail)

    @classmethod
    def unresolvable(cls, reason: str, detail: str = "") -> Self:
        """Return a status with the code UNSCHEDULABLE_AND_UNRESOLVABLE.

        The status rejects a pod on a node, and says that evicting other pods would not help.
        """
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason, detail)

    @classmethod
    def wait(cls, reason: str = "", detail: str = "") -> Self:
        """Return a status with the code WAIT, by which a Permit plugin holds a pod."""
        return cls(Code.WAIT, reason, detail)

    @classmethod
    def skip(cls) -> Self:
        """Return a status with the code SKIP, for a PreFilter, PreScore or Bind plugin.

        After Skip from PreFilter or PreScore, kubextend does not call this plugin's Filter or
        Score; after Skip from Bind, the next Bind plugin binds the pod.
        """
        return cls(Code.SKIP)

    @classmethod
    def pending(cls, reason: str, detail: str = "") -> Self:
        """Return a status with the code PENDING.

        The pod is rejected until something outside of the scheduler has happened.
        """
        return cls(Code.PENDING, reason, detail)

    @property
    def is_success(self) -> bool:
        """Whether the code is SUCCESS."""
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Whether the code is UNSCHEDULABLE, UNSCHEDULABLE_AND_UNRESOLVABLE or PENDING."""
        return self.code in _REJECTING
