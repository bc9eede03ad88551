"""Labels the pod of the replica that leads, and shows when that replica may decide.

The election decides who leads. A Service selects the label, so that kube-scheduler calls the
leader. A new leader decides only after its watch has shown the label that the leader has just put
on its own pod: the store then has every Binding that the leader before has written.
"""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from kubextend.cluster.api_call import (
    ONLY_METADATA,
    STRATEGIC_MERGE,
    Call,
    UnreachableError,
    parsed_object,
)
from kubextend.cluster.election import Election, State
from kubextend.errors import ClusterError
from kubextend.metrics import ScrapedGauge

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster
    from kubextend.cluster.election import LeaseName
    from kubextend.cluster.watch import Reflector

__all__ = ["LABEL", "Leader", "PodName"]

log = logging.getLogger(__name__)

LABEL: Final = "kubextend.dev/leader"
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


class Work(Protocol):
    """What the replica does while it leads."""

    def is_ready(self) -> bool:
        """Return whether only the lead is missing for this replica to decide."""

    def is_busy(self) -> bool:
        """Return whether a pod is on its way to a node."""

    def cease(self, why: str) -> None:
        """Give up all pods that are on their way to a node; must not wait."""


@dataclass(frozen=True, slots=True)
class _Label:
    """The label on the replica's own pod.

    Attributes:
        term: the term of the replica in which the pod got the label.
        version: the resourceVersion of the pod with the label.
    """

    term: int
    version: int


_OF_ANOTHER: Final = _Label(0, 0)
"""A label that this process has not set: the container may have been restarted in a pod whose last
process led."""


class Leader:
    """Takes part in the election, and keeps the label on the replica's pod while it leads.

    Args:
        cluster: the connection to the Kubernetes API.
        lease: the Lease whose holder leads.
        pod: the pod of this replica.
        pods: the watch of all pods; None: nobody counts pods.
        work: what the replica does while it leads.

    Attributes:
        election: the election, which this object starts and stops.
    """

    METRICS: ClassVar[tuple[ScrapedGauge[Leader]]] = (
        ScrapedGauge(
            "kubextend_leader",
            "1 while this replica leads: it alone decides where plugins keep state.",
            lambda leader: leader.leads,
        ),
    )

    def __init__(
        self,
        cluster: Cluster,
        lease: LeaseName,
        pod: PodName,
        pods: Reflector[Any] | None,
        work: Work,
    ) -> None:
        self.election = Election(cluster, lease, identity=f"{pod.name}_{uuid.uuid4()}")
        self._cluster = cluster
        self._pod = pod
        self._pods = pods
        self._work = work
        self._term_at_work = 0
        self._label: _Label | None = _OF_ANOTHER
        self._error = ""
        self._look_now = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubextend-leader", daemon=True)

    @property
    def term(self) -> int:
        """How many times this replica has begun to lead."""
        return self.election.term

    @property
    def leads(self) -> bool:
        """Whether this replica may decide now."""
        return not self.why_not()

    @property
    def leads_since_s(self) -> float | None:
        """When this replica began to lead, in seconds of Unix time; None: it may not decide now."""
        return self.election.term_began_s if self.leads else None

    def left_s(self) -> float:
        """Return the seconds for which this replica leads if no renewal of the Lease succeeds."""
        return self.election.left_s()

    def why_not(self) -> str:
        """Return why this replica may not begin to decide now; empty: it may."""
        state, label = self.election.state, self._label
        if state is State.LEADING:
            return ""
        if state is not State.CATCHING_UP:
            return NOT_LEADER
        if label is None or label.term != self.election.term:
            return _NOT_LABELLED
        if self._pods is not None and not self._pods.has_seen(label.version):
            return _NOT_SEEN
        # Once seen is enough: a later list or watch may begin at an older version.
        self.election.caught_up(label.term)
        return ""

    def why_over(self, term: int) -> str:
        """Return why what began in this term must not go on; empty: it may go on."""
        leads = self.election.leads and self.election.term == term
        return "" if leads else NOT_LEADER

    def why_not_ready(self) -> str:
        """Return why the pod must get no calls: it has the label, and the replica does not lead."""
        if self._label is None or self.election.may_begin:
            return ""
        cause = f": {self._error}" if self._error else ""
        return f"the label {LABEL} is not yet removed from pod {self._pod}{cause}"

    def start(self) -> None:
        """Start the thread, which takes part in the election once the replica could decide."""
        self._thread.start()

    def resign(self) -> None:
        """Decide nothing new, and give the Lease back when all binds have ended; never blocks."""
        self.election.resign()
        self._look_now.set()

    def stop(self) -> None:
        """End the election's thread, remove the leader's label from this pod, give the Lease back.

        The Lease stays until it lapses if a Binding of this replica may still take effect.
        """
        self._stopped.set()
        self.resign()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        if self._error:
            # The label has just failed, and a process that ends has little time.
            self._give_back()
        else:
            self._turn()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._look_now.clear()
            self._look_now.wait(self._turn())

    def _turn(self) -> float:
        """Do once what the election asks for; return the seconds until the next turn."""
        try:
            self._end_a_term()
            try:
                self._keep_label()
            finally:
                self._give_back()
            if self.election.state is not State.RESIGNED and self._work.is_ready():
                # Only now, so that no idle replica leads; the label of an earlier process has been
                # removed by then, so the replica may patch its pod.
                self.election.start()
        except (ClusterError, ValueError) as error:
            if str(error) != self._error:
                self._error = str(error)
                log.warning("cannot set the label %s, trying again: %s", LABEL, error)
            return PAUSE_S
        except Exception:
            log.exception("the leader's label cannot be kept")
            return PAUSE_S
        self._error = ""
        return LOOK_S

    def _end_a_term(self) -> None:
        """Give up the work of a term that is over, even if the next term has begun."""
        if self._term_at_work and self.why_over(self._term_at_work):
            self._term_at_work = 0
            log.warning("%s no longer leads: binds are given up", self._pod)
            self._work.cease(NOT_LEADER)

    def _keep_label(self) -> None:
        """Make the label on the pod say whether this replica leads."""
        term = self.election.term
        if not self.election.may_begin or self.why_over(term):
            if self._label is not None:
                self._patch(None)
                self._label = None
        elif self._label is None or self._label.term != term:
            # Removed first: the label is then sure to be a change of the pod, which every watch
            # shows, and which is newer than the Lease.
            self._term_at_work = term
            self._patch(None)
            self._label = _OF_ANOTHER
            self._label = _Label(term, self._patch("true"))
            log.info("%s leads, and has the label %s", self._pod, LABEL)

    def _give_back(self) -> None:
        if self.election.state is State.RESIGNED and not self._work.is_busy():
            self.election.stop()

    def _patch(self, value: str | None) -> int:
        """Set or remove the label, and return the pod's resourceVersion.

        Raises: ClusterError: the API refused, did not answer, or named no resourceVersion.
        """
        call = Call(
            "PATCH",
            self._pod.path,
            CALL_S,
            body={"metadata": {"labels": {LABEL: value}}},
            content_type=STRATEGIC_MERGE,
            accept=ONLY_METADATA,
            right="patch on pods of this namespace",
        )
        answer = parsed_object(call, self._cluster.request(call))
        try:
            return int(answer["metadata"]["resourceVersion"])
        except (KeyError, TypeError, ValueError) as error:
            raise UnreachableError(call, "the answer has no resourceVersion") from error
