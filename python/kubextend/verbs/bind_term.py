"""Remembers for one bind request in which of its terms this replica began to work on the request.

A term is a time in which the replica leads without a break. A replica may lose the lead and win it
again during one bind, and another replica decides in between.
"""

from dataclasses import dataclass
from typing import Final, Self

from kubextend.framework.handle import LeaderSource

__all__ = ["NO_LEAD", "Lead"]


@dataclass(frozen=True, slots=True)
class Lead:
    """The term of this replica in which a bind began.

    Attributes:
        leader: says whether this replica leads; None: no leader is elected.
        term: the number of the term.
    """

    leader: LeaderSource | None
    term: int = 0

    @classmethod
    def now(cls, leader: LeaderSource | None) -> Self:
        """Return the latest term, in which the replica may have ceased to lead already."""
        return cls(leader, 0 if leader is None else leader.term)

    def why_over(self) -> str:
        """Return why this replica must not go on with the bind; empty: it may go on."""
        return "" if self.leader is None else self.leader.why_over(self.term)

    def least_s(self, left_s: float | None) -> float | None:
        """Return the lesser of some seconds and those for which this replica surely leads.

        Args:
            left_s: the seconds; None: no limit.
        """
        if self.leader is None:
            return left_s
        leads_s = self.leader.left_s()
        return leads_s if left_s is None else min(left_s, leads_s)


NO_LEAD: Final = Lead(None)
"""The ``Lead`` of a bind that needs no leader."""
