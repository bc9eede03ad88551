"""The bind verb: runs the binding cycle of a pod for the node that kube-scheduler chose."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kubextend import core
from kubextend.errors import ClusterError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Binder
from kubextend.framework.status import Status
from kubextend.metrics import HistogramFamily, exponential
from kubextend.profile import BindingCycle, BindingPlugins, BindTime, Profile
from kubextend.profile.binding_cycle import seconds_to
from kubextend.profile.plugin_failures import sentence
from kubextend.profile.run_in_progress import Run
from kubextend.verbs.answer import Answer, Body, Result, binding
from kubextend.verbs.answer_in_time import OnJob
from kubextend.verbs.bind_room import Room, why_rejected
from kubextend.verbs.context import Context
from kubextend.verbs.decision_records import VerbCall, short
from kubextend.verbs.may_bind import DELETED, GONE, POD_DELETED, MayBind
from kubextend.verbs.request_metrics import ATTEMPTS, counting
from kubextend.verbs.unplaced_pods import Attempt

__all__ = ["POD_DELETED", "BindVerb"]

_LOGGER = logging.getLogger(__name__)

_BINDING: Final = HistogramFamily(
    "kubextend_binding_api_duration_seconds",
    "From the call of the Kubernetes API that binds a pod to its result, with all retries.",
    exponential(0.001, 2, 15),
    ("result",),
)
_NO_BINDER = (
    "kubextend cannot bind: it has no access to the Kubernetes API; configure `cluster`, or take "
    "bindVerb out of kube-scheduler's extender entry"
)
_TOO_LATE = "kubextend has not bound the pod in time"
_GIVEN_UP = "the bind request was given up before it was answered"
_REPLACED = "a newer bind request for this pod took its place"
# How late kube-scheduler hears of a pod that may be the member of a pod group.
_UNREAD_DELAY_S: Final = 1.0
_NO_PLUGINS: Final = BindingPlugins()


@dataclass(slots=True, eq=False)
class _Request:
    """A bind request, and what is known of its pod.

    Attributes:
        args: the pod's names and the node's.
        time: the time limits of the request.
        pod: the pod; None: there is no such pod, or it has not been read.
        unread: whether the API has not said whether there is such a pod.
        may: says whether the pod may still be bound; None before the pod is known.
        cycle: the binding cycle; None before it begins.
        permit_said: why Permit rejected the pod; None: Permit did not.
        call: the record of the request; None: nothing is recorded of the pod.
        refused_as: how metrics count the request if the pod is not bound.
    """

    args: core.BindingArgs
    time: BindTime
    pod: core.Pod | None = None
    unread: bool = False
    may: MayBind | None = None
    cycle: BindingCycle | None = None
    permit_said: Status | None = None
    call: VerbCall | None = None
    refused_as: Result = "error"

    def missing_fields(self) -> str:
        """Return the names of the fields that the request lacks."""
        args = self.args
        values = args.pod_name, args.pod_namespace, args.pod_uid, args.node
        names = "PodName", "PodNamespace", "PodUID", "Node"
        return ", ".join(name for name, value in zip(names, values, strict=True) if not value)

    def left_s(self) -> float | None:
        """Return the seconds within which a Binding has to be posted; None: no limit."""
        left_s = seconds_to(self.time.all_until_s)
        return left_s if self.may is None else self.may.seconds(left_s)


@dataclass(slots=True, eq=False)
class _UnderWay:
    """The binding cycle of a pod, and the task of the request that runs the cycle.

    Attributes:
        cycle: the binding cycle.
        may: says whether the pod may still be bound.
        task: the task of the request; a second task for the cycle would cost 1 KB more for each
            pod that waits.
        given_up: a future, made when a newer request for the same pod cancels the task; done when
            the task has ended. None: there is no newer request.
    """

    cycle: BindingCycle
    may: MayBind
    task: asyncio.Task[Any]
    given_up: asyncio.Future[None] | None = None

    async def replace(self) -> None:
        """Cancel the binding cycle; wait until the cycle has called Unreserve or bound its pod."""
        if self.given_up is None:
            self.given_up = asyncio.get_running_loop().create_future()
            self.task.cancel()
        await asyncio.wait([self.given_up])


class BindVerb:
    """The bind verb: runs the binding cycle of the pod's profile.

    A request that lacks the pod's name, namespace or UID, or the node's name, gets an Error.

    Args:
        context: what all verbs share.
    """

    name: Final = "bind"
    answers_refusals: Final = False
    holds_body: Final = False

    def __init__(self, context: Context) -> None:
        self._context = context
        context.metrics.declare(_BINDING)
        self._cluster = context.cluster
        self._limits = context.limits
        self._unplaced = context.unplaced
        self._places = context.places
        self._throttle = context.throttle
        self._guard = context.guard
        self._under_way: dict[str, _UnderWay] = {}
        self._bindings: set[str] = set()
        # How many requests may still bind their pod.
        self._deciding = 0
        self._room = Room(context)

    async def __call__(self, body: Body) -> Body:
        """Bind the pod of a request, however long that takes, and return the body of the answer.

        Raises: WireError: the body cannot be read.
        """
        return (await self.answer(body, time.monotonic())).body

    def at_once(self, body: Body) -> None:
        """Return None, because no bind request is answered without a wait."""

    def instead(self, why: str) -> Answer:
        """Return an ExtenderBindingResult with an Error, which makes kube-scheduler retry."""
        return binding(why)

    async def answer(self, body: Body, arrived_s: float, on_job: OnJob = lambda _: None) -> Answer:
        """Return an ExtenderBindingResult once the pod is bound or cannot be bound.

        Args:
            body: the body of the request.
            arrived_s: when the request came, on the clock of ``time.monotonic``.
            on_job: never called. Other verbs call it with the work of a thread that uses the body;
                bind gives the body to no thread.

        Raises: WireError: the body cannot be read.
        """
        del on_job
        with counting(self._context.metrics, self.name) as counted:
            time = BindTime(arrived_s, self._context.config.extender.bind_timeout.seconds)
            request = _Request(core.read_binding_args(body), time)
            # Permit may hold the pod for minutes.
            del body
            if missing := request.missing_fields():
                return counted(binding(f"the bind request has no {missing}"))
            run = self._limits.run()
            member = self._places.bind_begins(request.args.pod_uid)
            self._deciding += 1
            try:
                with run:
                    why_not = await self._bind(request)
            except (TimeoutError, ClusterError, PluginError) as error:
                why_not = self._why_failed(request, error)
            finally:
                self._deciding -= 1
                self._places.bind_ends(member)
                if request.call is not None:
                    request.call.done = True
            self._record_end(request, run, why_not)
            if why_not:
                await self._wait_to_refuse(request, why_not)
                return counted(binding(why_not)._replace(result=request.refused_as))
            self._unplaced.forget(request.args.pod_uid)
            self._throttle.forget(request.args.pod_uid)
            return counted(binding())

    # The steps of a bind, in their order. Each returns why the pod is not bound; "" if it may be.

    async def _bind(self, request: _Request) -> str:
        """Run the binding cycle, with the pod counted on its node from before Reserve on."""
        begun = await self._begun(request)
        if isinstance(begun, str):
            return begun
        cycle, may, profile = begun
        if (why := await self._after_older(cycle)) is not None:
            return why
        with self._turn(cycle, may):
            if why_full := await self._room.take(profile, cycle):
                return why_full
            try:
                status = await cycle.run()
            finally:
                if not cycle.bound and self._cluster.pods is not None:
                    self._cluster.pods.store.forget(cycle.pod.uid)
            if cycle.permit_rejected and status.is_rejected and not may.is_gone:
                request.permit_said = status
            return why_rejected(status)
        return _REPLACED

    async def _begun(self, request: _Request) -> str | tuple[BindingCycle, MayBind, Profile | None]:
        """Return the binding cycle of the pod, ready to run, and the profile if it has plugins.

        Or return why the pod is not bound; "" if it is bound already.
        """
        args, binder = request.args, self._cluster.binder
        if binder is None or (self._context.config.guard.resources and self._guard is None):
            return _NO_BINDER
        attempt = self._unplaced.take(args.pod_uid)
        request.pod = pod = await self._read(request) if attempt is None else attempt.pod
        if pod is None:
            return await self._bind_unknown(request, binder)
        self._record_begin(request, pod)
        if self._is_bound(args):
            return ""
        if why := self._context.unknown_schedulers.why_rejected(pod):
            request.refused_as = "unknown_scheduler"
            return why
        profile = self._context.profiles.for_pod(pod)
        request.may = may = MayBind(self._context, pod, args.node, profile)
        if profile is not None and not profile.binds_with_plugins:
            profile = None
        if why := self._why_not_yet(profile):
            return why
        state = await self._prepared(request, profile, pod, attempt)
        request.cycle = cycle = BindingCycle(
            _NO_PLUGINS if profile is None else profile.binding,
            state,
            pod,
            args.node,
            self._context.waiting_pods,
            lambda: self._post(request, binder, state, cycle.why_not_now),
            self._limits,
            request.time,
            why_over=may.why_over,
            why_not_there=may.why_not_there,
            on_late_unreserve=self._unplaced.expect_change,
        )
        return cycle, may, profile

    def _is_bound(self, args: core.BindingArgs) -> bool:
        """Return whether an earlier request has bound the pod, which filters would count again."""
        pods = self._cluster.pods
        if pods is None or args.pod_uid in self._under_way:
            return False
        return pods.store.snapshot().pod_on(args.node, args.pod_uid) is not None

    async def _read(self, request: _Request) -> core.Pod | None:
        """Return the pod of a request from the watch or the API; None: there is no such pod.

        Raises: ClusterError: the pod could not be read.
        """
        args, reader = request.args, self._cluster.pod_reader
        pod = None if self._cluster.pods is None else self._cluster.pods.store.get(args.pod_uid)
        if (pod is None or pod.truncated) and reader is not None:
            request.unread = True
            get = partial(reader.get, args.pod_namespace, args.pod_name)
            pod = await self._cluster.in_thread(get)
            request.unread = False
        return None if pod is None or pod.uid != args.pod_uid else pod

    async def _bind_unknown(self, request: _Request, binder: Binder) -> str:
        """Leave a pod that nobody knows to the API, unless plugins or the guard need the pod."""
        profiles = self._context.profiles.by_scheduler_name.values()
        if self._guard is not None or any(each.binds_with_plugins for each in profiles):
            args = request.args
            return f"there is no pod {args.pod_namespace}/{args.pod_name} of this UID"
        await self._post(request, binder, CycleState())
        return ""

    def _why_not_yet(self, profile: Profile | None) -> str:
        """Return why this replica must not decide about the pod now: not leader, or not ready."""
        leader = self._cluster.leader
        # The guard counts the pods that this replica is about to bind, also those of no profile.
        if self._guard is not None and leader is not None and (why := leader.why_not()):
            return why
        return "" if profile is None else self._context.readiness.why_not(self.name, profile)

    async def _prepared(
        self, request: _Request, profile: Profile | None, pod: core.Pod, attempt: Attempt | None
    ) -> CycleState:
        """Return the CycleState of the pod's attempt; if that is lost, run PreFilter for a new one.

        Raises: PluginError: PreFilter failed.
        """
        if profile is None:
            return CycleState()
        if attempt is not None:
            return attempt.state
        state = CycleState()
        nodes = self._context.nodes_named(request.args.node)
        left_out = self._context.failures.left_out
        prepare = partial(profile.run_pre_filter_plugins, state, pod, nodes, left_out)
        await self._limits.within_async(self._room.thread_s(request.time), prepare)
        return state

    async def _after_older(self, cycle: BindingCycle) -> str | None:
        """Cancel an older request that binds the same pod; return None if its pod is not bound.

        The older cycle gives up its reservations before the newer one reserves.
        """
        while (older := self._under_way.get(cycle.pod.uid)) is not None:
            await older.replace()
            if older.cycle.bound:
                there, wanted = older.cycle.node_name, cycle.node_name
                return (
                    "" if there == wanted else f"the pod is bound to node {there}, not to {wanted}"
                )
        return None

    @contextmanager
    def _turn(self, cycle: BindingCycle, may: MayBind) -> Iterator[None]:
        """Return a context for the one cycle of its pod; a newer request for the pod ends it."""
        uid, nodes_by_uid = cycle.pod.uid, self._context.binding
        mine = self._under_way[uid] = _UnderWay(cycle, may, _this_task())
        nodes_by_uid[uid] = cycle.node_name
        try:
            yield
        except asyncio.CancelledError:
            if mine.given_up is None or mine.task.cancelling() > 1:
                raise
        finally:
            del self._under_way[uid], nodes_by_uid[uid]
            if mine.given_up is not None:
                mine.task.uncancel()
                mine.given_up.set_result(None)
            if not cycle.bound:
                # kube-scheduler lets go of a deleted pod at once, and may ask about the next pod
                # while the deleted one still has its reservations.
                self._unplaced.expect_change()

    async def _post(
        self,
        request: _Request,
        binder: Binder,
        state: CycleState,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        """Post the Binding of a pod to the Kubernetes API, and wait until the API has answered.

        Raises:
            ClusterError: the API refused, or the pod may be bound no more: it is not bound.
            TimeoutError: kube-scheduler has given up, or soon will, and may place the pod anew.
        """
        args = request.args
        names = args.pod_namespace, args.pod_name, args.pod_uid, args.node
        annotations = state.annotations_of(args.pod_uid)
        histogram = partial(self._context.metrics.histogram, _BINDING)

        def write() -> None:
            # The write may begin late, because no thread was free earlier.
            left_s = request.left_s()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            began_s, result = time.monotonic(), "error"
            try:
                binder.bind(*names, timeout_s=left_s, annotations=annotations, why_not=why_not)
                result = "ok"
            finally:
                took_s = time.monotonic() - began_s
                histogram(result).observe(took_s)
                if request.call is not None:
                    request.call.api_s = took_s

        binding_of = f"{args.pod_namespace}/{args.pod_name} to node {args.node}"
        self._bindings.add(binding_of)
        try:
            await self._cluster.in_thread(write)
        finally:
            self._bindings.discard(binding_of)

    # What is recorded, and when kube-scheduler hears of a refusal.

    def _why_failed(
        self, request: _Request, error: TimeoutError | ClusterError | PluginError
    ) -> str:
        """Return why the pod is not bound, from what the steps raised."""
        if isinstance(error, PluginError):
            self._context.failures.note(error, "bind fails")
            if request.call is not None:
                request.call.blame(error)
            return sentence(error)
        if isinstance(error, ClusterError):
            return str(error) or "the Kubernetes API refused the binding"
        return _TOO_LATE

    def _record_begin(self, request: _Request, pod: core.Pod) -> None:
        """Record that a bind has begun: people ask why a pod is not bound while Permit holds it."""
        decisions = self._context.decisions
        if decisions.records:
            # The Error is true if this request is cancelled.
            request.call = VerbCall(self.name, _GIVEN_UP, node=request.args.node, done=False)
            decisions.add(pod, request.call)

    def _record_end(self, request: _Request, run: Run, why_not: str) -> None:
        """Count what became of the pod, and complete the record."""
        profile = self._context.profiles.for_pod(request.pod)
        name = "" if profile is None else profile.scheduler_name
        result = "bound" if not why_not else "error" if request.permit_said is None else "rejected"
        self._context.metrics.counter(ATTEMPTS, self.name, name, result).inc()
        if (call := request.call) is not None:
            if (cycle := request.cycle) is not None:
                call.rejected_by, call.held_s = cycle.rejected_by, cycle.held_s
            call.timed(run)
            call.error = short(why_not)
            self._context.decisions.ended(call)

    async def _wait_to_refuse(self, request: _Request, why: str) -> None:
        """Log why the pod is not bound, and wait until kube-scheduler may be told.

        kube-scheduler has no backoff for some pods, and retries them at once.
        """
        args = request.args
        names = args.pod_namespace, args.pod_name, args.node
        _LOGGER.warning("pod %s/%s is not bound to %s: %s", *names, why)
        pod, cycle = request.pod, request.cycle
        left_s = seconds_to(request.time.cleanup_until_s)
        was_held = request.permit_said is not None and cycle is not None and cycle.was_held
        delay_s = _UNREAD_DELAY_S if request.unread else 0.0
        if pod is not None:
            delay_s = self._throttle.delay_s(pod, was_held=was_held)
        if left_s is not None:
            delay_s = max(0.0, min(delay_s, left_s))
        if pod is not None and request.permit_said is not None:
            # Before the wait: whatever wakes or ends the pod meanwhile counts more.
            self._unplaced.reject_permit(pod, request.permit_said, delay_s)
        await self._throttle.wait(delay_s)

    # What others ask and tell.

    def bindings_under_way(self) -> list[str]:
        """Return "namespace/pod to node N" for each Binding that the API has not answered yet."""
        return sorted(self._bindings)

    @property
    def is_busy(self) -> bool:
        """Whether the pod of a bind request may still be bound; refusals that wait do not count."""
        return bool(self._deciding)

    def give_up(self, why: str) -> None:
        """Fail each bind before its pod is bound, even if Permit holds it; any thread may call."""
        for under_way in list(self._under_way.values()):
            under_way.cycle.lose_node(why)

    def node_deleted(self, name: str) -> None:
        """Fail each bind to a deleted node, also of pods that Permit holds; any thread may call."""
        for under_way in list(self._under_way.values()):
            if under_way.cycle.node_name == name:
                under_way.cycle.lose_node(DELETED)

    def nodes_listed(self) -> None:
        """Fail each bind to a node that the latest list lacks, and expect that pods fit by now.

        Any thread may call. A list follows a break of the watch.
        """
        for under_way in list(self._under_way.values()):
            if under_way.may.why_not_on_node() in GONE:
                under_way.cycle.lose_node(DELETED)
        self._unplaced.expect_change()


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "it is awaited"  # noqa: S101  for the type checker
    return task
