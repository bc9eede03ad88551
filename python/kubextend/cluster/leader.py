"""Makes one replica the leader, labels the pod of the leader, and shows when the leader may decide.

The election decides who leads. A Service selects the label, so that kube-scheduler calls the
leader. A new leader decides only after its watch has shown the label that the leader has just put
on its own pod: the store then has every Binding that the leader before has written.
"""

from __future__ import annotations

import logging
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

from kubextend.cluster.api_call import (
    ONLY_METADATA,
    STRATEGIC_MERGE,
    Call,
    UnreachableError,
    parsed_object,
)
from kubextend.cluster.election import Election
from kubextend.errors import ClusterError
from kubextend.metrics import ScrapedGauge

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster
    from kubextend.cluster.election import LeaseName

__all__ = ["LABEL", "Leader", "PodName"]

log = logging.getLogger(__name__)

LABEL: Final = "kubextend.dev/leader"
RETRY_S: Final = 0.5
"""The most seconds between two looks at a Lease that another replica holds. With the 15 s of the
Lease, another replica leads 16 s after the leader died."""
LOOK_S: Final = 0.1
PAUSE_S: Final = 1.0
CALL_S: Final = 5.0
JOIN_S: Final = 2 * CALL_S

NOT_LEADER: Final = "this replica does not lead"
_NOT_LABELLED: Final = "this replica has begun to lead, and its pod has no label yet"
_NOT_SEEN: Final = "this replica has begun to lead, and its watch of pods has not caught up yet"


@dataclass(frozen=True, slots=True)
class PodName:
    """The namespace and the name of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """The API path of the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


class Watch(Protocol):
    """The watch of all pods, as ``Reflector`` has it."""

    def has_seen(self, version: int) -> bool:
        """Return whether the store shows every change up to a resourceVersion."""


class Work(Protocol):
    """What the replica does while it leads."""

    def is_ready(self) -> bool:
        """Return whether only the lead is missing for this replica to decide."""

    def is_busy(self) -> bool:
        """Return whether a pod is on its way to a node."""

    def cease(self, why: str) -> None:
        """Give up all pods that are on their way to a node; must not wait."""


@dataclass(slots=True)
class _Mark:
    """The label on the replica's own pod.

    Attributes:
        term: the term of the replica in which the pod got the label.
        version: the resourceVersion of the pod with the label.
        seen: whether the watch has shown that version.
    """

    term: int
    version: int
    seen: bool = False


class Leader:
    """Takes part in the election, and keeps the label on the replica's pod while it leads.

    Args:
        cluster: the connection to the Kubernetes API.
        election: the election, which this object starts and stops.
        pod: the pod of this replica.
        pods: the watch of all pods; None: nobody counts pods.
        work: what the replica does while it leads.
    """

    METRICS: ClassVar[tuple[ScrapedGauge[Leader]]] = (
        ScrapedGauge(
            "kubextend_leader",
            "1 while this replica leads: it alone decides where plugins keep state.",
            lambda leader: leader.leads,
        ),
    )

    def __init__(
        self, cluster: Cluster, election: Election, pod: PodName, pods: Watch | None, work: Work
    ) -> None:
        self._cluster = cluster
        self._election = election
        self._pod = pod
        self._pods = pods
        self._work = work
        self._is_candidate = False
        self._is_resigned = False
        self._term_at_work = 0
        self._mark: _Mark | None = None
        # The container may have been restarted in a pod whose last process led.
        self._is_labelled = True
        self._error = ""
        self._look_now = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubextend-leader", daemon=True)

    @classmethod
    def of(
        cls, cluster: Cluster, lease: LeaseName, pod: PodName, pods: Watch | None, work: Work
    ) -> Self:
        """Make a Leader with an election of its own, without calling the API.

        Args:
            cluster: the connection to the Kubernetes API.
            lease: the Lease whose holder leads.
            pod: the pod of this replica.
            pods: the watch of all pods; None: nobody counts pods.
            work: what the replica does while it leads.
        """
        identity = f"{pod.name}_{uuid.uuid4()}"
        election = Election(cluster, lease, identity=identity, retry_s=RETRY_S)
        return cls(cluster, election, pod, pods, work)

    @property
    def term(self) -> int:
        """How many times this replica has begun to lead."""
        return self._election.term

    @property
    def leads(self) -> bool:
        """Whether this replica may decide now."""
        return not self.why_not()

    @property
    def leads_since_s(self) -> float | None:
        """When this replica began to lead, in seconds of Unix time; None: it may not decide now."""
        return self._election.term_began_s if self.leads else None

    def left_s(self) -> float:
        """Return the seconds for which this replica leads if no renewal of the Lease succeeds."""
        return self._election.left_s()

    def why_not(self) -> str:
        """Return why this replica may not begin to decide now; empty: it may."""
        if self._is_resigned or not self._election.leads:
            return NOT_LEADER
        mark = self._mark
        if mark is None or mark.term != self._election.term:
            return _NOT_LABELLED
        if not mark.seen:
            # Once seen is enough: a later list or watch may begin at an older version.
            mark.seen = self._pods is None or self._pods.has_seen(mark.version)
        return "" if mark.seen else _NOT_SEEN

    def why_over(self, term: int) -> str:
        """Return why what began in this term must not go on; empty: it may go on."""
        leads = self._election.leads and self._election.term == term
        return "" if leads else NOT_LEADER

    def why_not_ready(self) -> str:
        """Return why the pod must get no calls: it has the label, and the replica does not lead."""
        if not self._is_labelled or (self._election.leads and not self._is_resigned):
            return ""
        cause = f": {self._error}" if self._error else ""
        return f"the label {LABEL} is not yet removed from pod {self._pod}{cause}"

    def start(self) -> None:
        """Start the thread, which takes part in the election once the replica could decide."""
        self._thread.start()

    def resign(self) -> None:
        """Decide nothing new, and give the Lease back when all binds have ended; never blocks."""
        self._is_resigned = True
        self._look_now.set()

    def stop(self) -> None:
        """End the election's thread, remove the leader's label from this pod, give the Lease back.

        The Lease stays until it lapses if a Binding of this replica may still take effect.
        """
        self._is_resigned = True
        self._stopped.set()
        self._look_now.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        if self._error:
            # The label has just failed, and a process that ends has little time.
            self._give_back()
        else:
            self.turn()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._look_now.clear()
            self._look_now.wait(self.turn())

    def turn(self) -> float:
        """Do once what the election asks for; return the seconds until the next turn.

        Only the leader's own thread and tests call this method.
        """
        try:
            self._end_a_term()
            try:
                self._label()
            finally:
                self._give_back()
            self._begin()
        except (ClusterError, ValueError) as error:
            self._note(error)
            return PAUSE_S
        except Exception:
            log.exception("the leader's label cannot be kept")
            return PAUSE_S
        self._error = ""
        return LOOK_S

    def _end_a_term(self) -> None:
        """Give up the work of a term that is over, even if the next term has begun."""
        if not self._term_at_work or not self.why_over(self._term_at_work):
            return
        self._term_at_work = 0
        self._mark = None
        log.warning("%s no longer leads: binds are given up", self._pod)
        self._work.cease(NOT_LEADER)

    def _begin(self) -> None:
        """Stand for election once the replica could decide, so that no idle replica leads.

        The label of an earlier process has been removed by then, so the replica may patch its pod.
        """
        if not self._is_candidate and not self._is_resigned and self._work.is_ready():
            self._is_candidate = True
            self._election.start()

    def _label(self) -> None:
        """Make the label on the pod say whether this replica leads."""
        term = self._election.term
        if self._is_resigned or self.why_over(term):
            if self._is_labelled:
                self._patch(None)
                self._is_labelled = False
        elif self._mark is None:
            # Removed first: the label is then sure to be a change of the pod, which every watch
            # shows, and which is newer than the Lease.
            self._term_at_work = term
            self._patch(None)
            self._is_labelled = True
            self._mark = _Mark(term, self._patch("true"))
            log.info("%s leads, and has the label %s", self._pod, LABEL)

    def _give_back(self) -> None:
        if self._is_resigned and not self._work.is_busy():
            self._election.stop()

    def _patch(self, value: str | None) -> int:
        """Set or remove the label, and return the pod's resourceVersion.

        Raises:
            ClusterError: the API refused or did not answer.
            ValueError: the answer has no resourceVersion that is a number.
        """
        body = {"metadata": {"labels": {LABEL: value}}}
        call = Call(
            "PATCH",
            self._pod.path,
            CALL_S,
            body=body,
            content_type=STRATEGIC_MERGE,
            accept=ONLY_METADATA,
            right="patch on pods of this namespace",
        )
        answer = parsed_object(call, self._cluster.request(call))
        with suppress(KeyError, TypeError):
            return int(answer["metadata"]["resourceVersion"])
        raise UnreachableError(call, "the answer has no resourceVersion")

    def _note(self, error: Exception) -> None:
        """Log a failure of the label once, until it changes or a turn succeeds."""
        text = str(error)
        if text != self._error:
            self._error = text
            log.warning("cannot set the label %s, trying again: %s", LABEL, text)
