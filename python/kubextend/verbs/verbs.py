"""The four verbs of one kubextend, joined to what they need."""

import time
from collections.abc import Callable
from typing import Literal

from kubextend import core
from kubextend.errors import WireError
from kubextend.framework.handle import Activator, Binder, NodeSource
from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.verbs.answer import Answer, Verb
from kubextend.verbs.bind import BindVerb
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.parked import ParkedPods
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.stores import Stores
from kubextend.verbs.unknown import UnknownNames

__all__ = ["Verbs"]


class Verbs:
    """Bytes of a request in, bytes of its answer out; safe to call from many threads.

    Args:
        profiles: by scheduler name.
        request_store: what full-mode requests fill.
        watched: the nodes that list and watch bring; None without access to an API.
        binder: posts Bindings; None without access to an API.
        activator: wakes parked pods; None without access to an API.
        ignorable: kube-scheduler was told to ignore our errors.
        score_scale: how scores are brought to the wire.
        metrics: what is counted.
        clock: seconds that only go forward.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing it is joined to
        self,
        profiles: Profiles,
        *,
        request_store: core.NodeStore,
        watched: NodeSource | None = None,
        binder: Binder | None = None,
        activator: Activator | None = None,
        ignorable: bool = False,
        score_scale: Literal["additive", "strict10"] = "additive",
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._parked = ParkedPods(activator, metrics=self.metrics, clock=clock)
        stores = Stores(request_store, watched)
        self._filter = FilterVerb(
            profiles,
            stores,
            unknown=UnknownNames(clock),
            parked=self._parked,
            metrics=self.metrics,
            ignorable=ignorable,
        )
        self._prioritize = PrioritizeVerb(profiles, stores, metrics=self.metrics, scale=score_scale)
        self._preempt = PreemptVerb(profiles, stores, metrics=self.metrics)
        self._bind = BindVerb(binder)

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

    def bind(self, body: bytes) -> bytes:
        """ExtenderBindingArgs in, ExtenderBindingResult out; blocks on the Kubernetes API.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("bind", self._bind, body)

    def nodes_changed(self) -> None:
        """Something that plugins read changed on watched nodes; from any thread.

        Runs the filters of recently rejected pods again, so gather events before you call it.
        """
        self._parked.nodes_changed()

    def _counted(self, verb: Verb, answer: Callable[[bytes], Answer], body: bytes) -> bytes:
        try:
            given = answer(body)
        except WireError:
            self.metrics.requests(verb, "bad_request").inc()
            raise
        except BaseException:
            self.metrics.requests(verb, "failed").inc()
            raise
        self.metrics.requests(verb, given.result).inc()
        return given.body
