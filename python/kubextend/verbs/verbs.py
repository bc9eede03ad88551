"""The four verbs of one kubextend, joined to what they need."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from kubextend import core
from kubextend.errors import WireError
from kubextend.framework.handle import Activator, Binder, NodeSource, PodReader, PodSource
from kubextend.metrics import Metrics
from kubextend.profile import Profiles, WaitingPods
from kubextend.verbs.answer import Answer, Verb
from kubextend.verbs.attempts import Attempts
from kubextend.verbs.bind import BindVerb, InThread
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.parked import ParkedPods
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.reasons import Reasons
from kubextend.verbs.rejected_permits import RejectedPermits
from kubextend.verbs.stores import Stores
from kubextend.verbs.unknown import UnknownNames

__all__ = ["Verbs"]


class Verbs:
    """Bytes of a request in, bytes of its answer out; safe to call from many threads.

    Args:
        profiles: by scheduler name.
        request_store: what full-mode requests fill.
        watched: the nodes that list and watch bring; None without access to an API.
        pods: watched pods and the ledger; None unless a plugin needs them.
        pod_reader: reads a pod that nobody else knows when it is to be bound.
        binder: posts Bindings; None without access to an API.
        activator: wakes parked pods; None without access to an API.
        ignorable: kube-scheduler was told to ignore our errors.
        score_scale: how scores are brought to the wire.
        metrics: what is counted.
        waiting_pods: where pods are found while Permit holds them.
        rejected_permits: the activator that plugins are given: what they wake is tried again. By
            default one of the verbs' own, which no plugin reaches.
        in_thread: runs a call that waits for the Kubernetes API.
        clock: seconds that only go forward.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing it is joined to
        self,
        profiles: Profiles,
        *,
        request_store: core.NodeStore,
        watched: NodeSource | None = None,
        pods: PodSource | None = None,
        pod_reader: PodReader | None = None,
        binder: Binder | None = None,
        activator: Activator | None = None,
        ignorable: bool = False,
        score_scale: Literal["additive", "strict10"] = "additive",
        metrics: Metrics | None = None,
        waiting_pods: WaitingPods | None = None,
        rejected_permits: RejectedPermits | None = None,
        in_thread: InThread = asyncio.to_thread,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.profiles = profiles
        self.metrics = metrics or Metrics()
        self._parked = ParkedPods(activator, metrics=self.metrics, clock=clock)
        self.waiting_pods = WaitingPods() if waiting_pods is None else waiting_pods
        self._activator = activator
        self._reasons = Reasons(clock)
        if rejected_permits is None:
            rejected_permits = RejectedPermits(activator, clock=clock)
        self._rejected_permits = rejected_permits
        attempts = Attempts()
        stores = Stores(request_store, watched)
        self._filter = FilterVerb(
            profiles,
            stores,
            attempts=attempts,
            unknown=UnknownNames(clock),
            parked=self._parked,
            reasons=self._reasons,
            rejected_permits=self._rejected_permits,
            metrics=self.metrics,
            ignorable=ignorable,
        )
        self._prioritize = PrioritizeVerb(
            profiles, stores, attempts=attempts, metrics=self.metrics, scale=score_scale
        )
        self._preempt = PreemptVerb(profiles, stores, metrics=self.metrics)
        self._bind = BindVerb(
            profiles,
            stores=stores,
            attempts=attempts,
            waiting_pods=self.waiting_pods,
            rejected_permits=self._rejected_permits,
            binder=binder,
            pods=pods,
            pod_reader=pod_reader,
            metrics=self.metrics,
            in_thread=in_thread,
        )

    def filter(self, body: bytes) -> bytes:
        """ExtenderArgs in, ExtenderFilterResult out.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("filter", self._filter, body)

    def prioritize(self, body: bytes) -> bytes:
        """ExtenderArgs in, HostPriorityList out.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("prioritize", self._prioritize, body)

    def preempt(self, body: bytes) -> bytes:
        """ExtenderPreemptionArgs in, ExtenderPreemptionResult out.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("preempt", self._preempt, body)

    async def bind(self, body: bytes) -> bytes:
        """ExtenderBindingArgs in, ExtenderBindingResult out, when the pod is bound or cannot be.

        Raises: WireError: the body cannot be read.
        """
        with self._counting("bind") as count:
            return count(await self._bind(body))

    def nodes_changed(self) -> None:
        """Something that plugins read changed on watched nodes; from any thread.

        Runs the filters of recently rejected pods again, so gather events before you call it.
        """
        self._parked.nodes_changed()

    def wake_due(self) -> None:
        """Pods whose time has come are activated; call it about once a second, from a thread.

        They are those that Permit rejected a while ago, and those whose reasons changed while
        kube-scheduler was told the old ones. Runs filters.
        """
        pods = [*self._rejected_permits.due(), *self._reasons.due()]
        if pods and self._activator is not None:
            self._activator.activate(pods)

    def _counted(self, verb: Verb, answer: Callable[[bytes], Answer], body: bytes) -> bytes:
        with self._counting(verb) as count:
            return count(answer(body))

    @contextmanager
    def _counting(self, verb: Verb) -> Iterator[Callable[[Answer], bytes]]:
        """Counts how a call ends; what it yields takes the answer."""

        def count(given: Answer) -> bytes:
            self.metrics.requests(verb, given.result).inc()
            return given.body

        try:
            yield count
        except WireError:
            self.metrics.requests(verb, "bad_request").inc()
            raise
        except BaseException:
            self.metrics.requests(verb, "failed").inc()
            raise
