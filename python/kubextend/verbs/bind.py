"""The bind verb: runs the binding cycle of a pod for the node that kube-scheduler chose."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson

from kubextend import core
from kubextend.errors import ClusterError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import NO_ANNOTATIONS, Binder
from kubextend.framework.status import Status
from kubextend.metrics import HistogramFamily, exponential
from kubextend.profile import BindingCycle, BindTime, Profile
from kubextend.profile.binding_cycle import seconds_to
from kubextend.profile.plugin_failures import sentence
from kubextend.profile.run_in_progress import Run
from kubextend.verbs.answer import Answer, Body, binding
from kubextend.verbs.bind_node_check import DELETED, GONE, why_not_on
from kubextend.verbs.bind_term import NO_LEAD, Lead
from kubextend.verbs.context import Context
from kubextend.verbs.decision_records import VerbCall, short
from kubextend.verbs.group_places import MOST_LOOKS
from kubextend.verbs.request_metrics import ATTEMPTS, counting
from kubextend.verbs.unplaced_pods import Attempt
from kubextend.verbs.verb_interface import OnJob

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
POD_DELETED: Final = "the pod is deleted"
"""Why a bind whose pod is deleted fails."""

_TOO_LATE = "kubextend has not bound the pod in time"
_RESTLESS = "the pods on the node kept changing"
# How often a bind waits half a second for pod groups that kube-scheduler may still be asking about.
_MOST_WAITS: Final = 10
_GIVEN_UP = "the bind request was given up before it was answered"
_REPLACED = "a newer bind request for this pod took its place"
# The seconds that each refusal of a member of a pod group takes at least: doubled from refusal to
# refusal, as kube-scheduler's backoff for other pods.
_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 10.0


@dataclass(slots=True, eq=False)
class _Request:
    """A bind request, and what is known of its pod.

    Attributes:
        args: the pod's names and the node's.
        time: the time limits of the request.
        pod: the pod; None: it is not known.
        permit_said: why Permit rejected the pod; None: Permit did not.
        was_held: whether Permit held the pod before it rejected the pod.
        lead: the term of this replica in which the bind began.
        state: the CycleState of the binding cycle; None: no plugin takes part.
        why_not: returns why the pod must not be bound to the node now; "" if it may be. Called
            right before each attempt to post the Binding.
        call: the record of the request; None: nothing is recorded of the pod.
    """

    args: core.BindingArgs
    time: BindTime
    pod: core.Pod | None = None
    permit_said: Status | None = None
    was_held: bool = False
    lead: Lead = NO_LEAD
    state: CycleState | None = None
    why_not: Callable[[], str] = lambda: ""
    call: VerbCall | None = None


@dataclass(slots=True, eq=False)
class _UnderWay:
    """The binding cycle that one bind request runs, and the request's task.

    Attributes:
        cycle: the binding cycle.
        task: the task of the request, which runs the cycle; a second task for the cycle would
            cost 1 KB more for each pod that waits.
        given_up: a future, made when a newer request for the same pod cancels the task; done when
            the task has ended. None: there is no newer request.
    """

    cycle: BindingCycle
    task: asyncio.Task[Any]
    given_up: asyncio.Future[None] | None = None

    async def replace(self) -> None:
        """Cancel the binding cycle; wait until the cycle has called Unreserve or bound its pod."""
        if self.given_up is None:
            self.given_up = asyncio.get_running_loop().create_future()
            self.task.cancel()
        await asyncio.wait([self.given_up])

    def end(self) -> None:
        """Let a newer bind request for the pod, which waits in ``replace``, go on."""
        if self.given_up is not None:
            self.task.uncancel()
            self.given_up.set_result(None)


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
        self._limits = context.memory.limits
        self._guard = context.guard
        self._unplaced = context.memory.unplaced
        self._under_way: dict[str, _UnderWay] = {}
        self._bindings: set[str] = set()
        # How many requests may still bind their pod.
        self._deciding = 0
        # A lock for tasks and not for threads: a thread that hangs must not hold the lock for ever.
        self._room = asyncio.Lock()
        # A thread that posts a Binding must not see a pod that is assumed only to look for room.
        self._guarding = threading.Lock()

    async def __call__(self, body: Body) -> Body:
        """Bind the pod of a request, however long that takes, and return the body of the answer.

        Raises: WireError: the body cannot be read.
        """
        return (await self.answer(body, time.monotonic())).body

    def at_once(self, body: Body) -> None:
        """Return None, because no bind request is answered without a wait."""

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
            args = core.read_binding_args(body)
            # Permit may hold the pod for minutes.
            del body
            return counted(await self._bound_or_not(args, arrived_s))

    def instead(self, why: str) -> Answer:
        """Return an ExtenderBindingResult with an Error, which makes kube-scheduler retry."""
        return binding(why)

    async def _bound_or_not(self, args: core.BindingArgs, arrived_s: float) -> Answer:
        if missing := _missing_fields(args):
            return binding(f"the bind request has no {', '.join(missing)}")
        request = _Request(args, BindTime(arrived_s, self._context.settings.bind_timeout_s))
        self._deciding += 1
        run = self._limits.run()
        try:
            with run:
                answer = await self._decided(request)
        except TimeoutError:
            answer = _refused(args, _TOO_LATE)
        except ClusterError as refusal:
            answer = _refused(args, str(refusal) or "the Kubernetes API refused the binding")
        except PluginError as error:
            self._context.failures.note(error, "bind fails")
            answer = _refused(args, sentence(error))
            if request.call is not None:
                request.call.blame(error)
        finally:
            self._deciding -= 1
            if request.call is not None:
                request.call.done = True
        self._count(request, answer)
        if request.call is not None:
            self._record_end(request.call, run, answer)
        if answer.result != "ok":
            self._context.memory.places.forget(args.pod_uid)
            await self._wait_to_refuse(request)
        else:
            self._unplaced.forget(args.pod_uid)
        return answer

    def _count(self, request: _Request, answer: Answer) -> None:
        """Count what became of the pod: bound, rejected by Permit, or an error."""
        profile = self._context.profiles.for_pod(request.pod)
        name = "" if profile is None else profile.scheduler_name
        result = "bound" if answer.result == "ok" else "error"
        if request.permit_said is not None:
            result = "rejected"
        self._context.metrics.counter(ATTEMPTS, self.name, name, result).inc()

    def _record_begin(self, request: _Request, pod: core.Pod) -> None:
        """Record that a bind has begun: people ask why a pod is not bound while Permit holds it."""
        decisions = self._context.memory.decisions
        if decisions.records:
            # The Error is true if this request is cancelled.
            request.call = VerbCall(self.name, _GIVEN_UP, node=request.args.node, done=False)
            decisions.add(pod, request.call)

    def _record_end(self, call: VerbCall, run: Run, answer: Answer) -> None:
        call.timed(run)
        call.error = short(orjson.loads(bytes(answer.body))["Error"])
        self._context.memory.decisions.ended(call)

    async def _wait_to_refuse(self, request: _Request) -> None:
        """Wait until kube-scheduler may be told that the pod is not bound.

        kube-scheduler has no backoff for some pods, and retries them at once.
        """
        delay_s = max(self._pace_s(request), await self._member_delay_s(request))
        left_s = seconds_to(request.time.cleanup_until_s)
        if left_s is not None:
            delay_s = max(0.0, min(delay_s, left_s))
        if request.permit_said is not None and request.pod is not None:
            # Before the wait: whatever wakes or ends the pod meanwhile counts more.
            self._unplaced.reject_permit(request.pod, request.permit_said, delay_s)
        await self._context.memory.throttle.wait(delay_s)

    def _pace_s(self, request: _Request) -> float:
        """Return for how many seconds to delay the answer about a pod that Permit rejected.

        Return 0 for a pod that Permit rejected at once: kubextend's scheduling queue releases no
        other pod before that pod has its answer.
        """
        if request.pod is None or request.permit_said is None or not request.was_held:
            return 0.0
        return self._context.memory.throttle.delay_s(request.pod.namespace)

    async def _member_delay_s(self, request: _Request) -> float:
        """Return for how many seconds the answer waits if the pod belongs to a pod group.

        kube-scheduler 1.37 tries such a pod again without any backoff, hundreds of times a second.

        Source: kubernetes v1.37 pkg/scheduler/backend/queue/scheduling_queue.go
        """
        args = request.args
        try:
            pod = request.pod or self._unplaced.pod(args.pod_uid) or await self._read(args)
        except ClusterError:
            # Nobody can say whether the pod belongs to a group.
            return _FIRST_DELAY_S
        if pod is None or not pod.scheduling_group:
            return 0.0
        refusals = 1 if self._is_settled(pod) else self._unplaced.refuse_bind(pod)
        # Whoever can reach the port may cause any number of refusals.
        delay_s = min(_FIRST_DELAY_S * (1 << min(refusals - 1, 10)), _LONGEST_DELAY_S)
        _LOGGER.info(
            "kube-scheduler hears in %g s of refusal %d of pod %s/%s in pod group %s",
            *(delay_s, refusals, pod.namespace, pod.name, pod.scheduling_group),
        )
        return delay_s

    def _is_settled(self, pod: core.Pod) -> bool:
        """Return whether pods are watched and the pod is gone or on a node: nobody binds it."""
        if self._cluster.pods is None:
            return False
        watched = self._cluster.pods.store.get(pod.uid)
        return watched is None or bool(watched.node_name)

    async def _decided(self, request: _Request) -> Answer:
        args, binder = request.args, self._cluster.binder
        if binder is None or (self._guard is None and self._context.settings.guards_resources):
            return binding(_NO_BINDER)
        self._context.memory.places.bind_begins(args.pod_uid)
        attempt = self._unplaced.take(args.pod_uid)
        if attempt is not None:
            request.pod = attempt.pod
        request.pod = pod = await self._pod_of(request)
        default_bind = partial(self._post, request, binder)
        if pod is None:
            await default_bind()
            return binding()
        self._record_begin(request, pod)
        if why := self._context.unknown_schedulers.why_rejected(pod):
            return _refused(args, why)._replace(result="unknown_scheduler")
        return await self._bound_by_profile(request, pod, attempt, default_bind)

    async def _bound_by_profile(
        self,
        request: _Request,
        pod: core.Pod,
        attempt: Attempt | None,
        default_bind: Callable[[], Coroutine[None, None, None]],
    ) -> Answer:
        args, profile = request.args, self._context.profiles.for_pod(pod)
        leader = self._cluster.leader
        if self._guard is not None or (profile is not None and profile.needs_leader):
            # Before the checks: if the lead ends after them, the bind has to end too.
            request.lead = Lead.now(leader)
        # The guard counts the pods that this replica is about to bind, also those of no profile.
        if self._guard is not None and leader is not None and (why_not := leader.why_not()):
            return binding(why_not)
        chosen = self._context.stores.watched_node(args.node)
        chosen_uid = None if chosen is None else chosen.uid
        why_not_there = partial(self._why_not_on, args.node, pod, chosen_uid)
        if profile is None or not profile.binds_with_plugins:
            # kube-scheduler may know a new node earlier than kubextend.
            known = chosen is not None and chosen.known
            request.why_not = lambda: (
                request.lead.why_over()
                or (why_not_there() if known else "")
                or self._why_no_room(args.pod_uid, args.node)
            )
            return await self._bound_without_plugins(pod, args.node, default_bind)
        if why_not := self._context.readiness.why_not(self.name, profile):
            return binding(why_not)
        # kube-scheduler may know a new pod earlier than kubextend.
        watched = not self._is_gone(pod)
        request.state = state = await self._state_of(attempt, profile, pod, request)
        cycle = BindingCycle(
            profile.binding,
            state,
            pod,
            args.node,
            self._context.memory.waiting_pods,
            default_bind,
            self._limits,
            request.time,
            lambda: request.lead.why_over() or self._why_deleted(pod, watched=watched),
            why_not_there,
            self._why_no_room,
            self._unplaced.expect_change,
        )
        request.why_not = cycle.why_not_now
        status = await self._bound(profile, cycle, request)
        if cycle.permit_rejected and status.is_rejected and not self._is_gone(pod):
            request.permit_said, request.was_held = status, cycle.was_held
        return binding() if status.is_success else _refused(args, status.reason or status.code.name)

    async def _bound_without_plugins(
        self, pod: core.Pod, node: str, default_bind: Callable[[], Coroutine[None, None, None]]
    ) -> Answer:
        """Bind a pod that has no profile, or whose profile has no plugin at a point of bind.

        If kubextend watches pods, filters count the pod on its node from before the API call on.

        Raises: ClusterError: the API or the guard refused.
        """
        if self._cluster.pods is None:
            await default_bind()
            return binding()
        bound = False
        if not (assumed := self._assume(pod, node)).is_success:
            raise ClusterError(assumed.reason)
        try:
            await default_bind()
            bound = True
        finally:
            if not bound:
                self._cluster.pods.store.forget(pod.uid)
                self._unplaced.expect_change()
        return binding()

    async def _bound(self, profile: Profile, cycle: BindingCycle, request: _Request) -> Status:
        try:
            return await self._in_turn(cycle, partial(self._assumed, profile, cycle, request.lead))
        finally:
            if request.call is not None:
                request.call.rejected_by, request.call.held_s = cycle.rejected_by, cycle.held_s
            if not cycle.bound:
                # kube-scheduler lets go of a deleted pod at once, and may ask about the next pod
                # while the deleted one still has its reservations.
                self._unplaced.expect_change()

    def _is_gone(self, pod: core.Pod) -> bool:
        """Return whether kubextend watches pods and the watch does not show the pod any more."""
        return self._cluster.pods is not None and self._cluster.pods.store.get(pod.uid) is None

    def _why_deleted(self, pod: core.Pod, *, watched: bool) -> str:
        """Return that a pod is deleted if the watch showed the pod before; "" if it may be there.

        Args:
            pod: the pod.
            watched: whether the watch showed the pod when its bind began.
        """
        return POD_DELETED if watched and self._is_gone(pod) else ""

    def _assume(self, pod: core.Pod, node: str) -> Status:
        """Count the pod on its node from now on; return an Error if the guard finds no room there.

        To look and to take the room is one step for all tasks and threads.
        """
        if self._cluster.pods is None:
            return Status.success()
        with self._guarding:
            self._cluster.pods.store.assume(pod, node)
            why_not = "" if self._guard is None else self._guard.why_not(pod.uid, node)
            if not why_not:
                return Status.success()
            self._cluster.pods.store.forget(pod.uid)
        return Status.error(why_not)

    def _why_no_room(self, uid: str, node: str) -> str:
        """Return why the guard does not let a pod onto a node; "" if it does, or without guard."""
        if self._guard is None:
            return ""
        with self._guarding:
            return self._guard.why_not(uid, node)

    async def _post(self, request: _Request, binder: Binder) -> None:
        """Post the Binding of a pod to the Kubernetes API, and wait until the API has answered.

        Raises:
            ClusterError: the API refused, or this replica ceased to lead: the pod is not bound.
            TimeoutError: kube-scheduler has given up, or soon will, and may place the pod anew.
        """
        args = request.args
        annotations = NO_ANNOTATIONS
        if request.state is not None:
            annotations = request.state.annotations_of(args.pod_uid)

        def write() -> None:
            # The write may begin late, because no thread was free earlier.
            left_s = request.lead.least_s(seconds_to(request.time.all_until_s))
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            names = args.pod_namespace, args.pod_name, args.pod_uid, args.node
            began_s, result = time.monotonic(), "error"
            try:
                binder.bind(
                    *names, timeout_s=left_s, annotations=annotations, why_not=request.why_not
                )
                result = "ok"
            finally:
                seconds = time.monotonic() - began_s
                self._context.metrics.histogram(_BINDING, result).observe(seconds)

        binding_of = f"{args.pod_namespace}/{args.pod_name} to node {args.node}"
        self._bindings.add(binding_of)
        began_s = time.monotonic()
        try:
            await self._cluster.in_thread(write)
        finally:
            self._bindings.discard(binding_of)
            if request.call is not None:
                request.call.api_s = time.monotonic() - began_s

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
        """Fail each bind to a node that the latest list of nodes lacks; any thread may call."""
        for under_way in list(self._under_way.values()):
            if under_way.cycle.why_not_there() in GONE:
                under_way.cycle.lose_node(DELETED)

    def _why_not_on(self, node: str, pod: core.Pod, chosen_uid: str | None) -> str:
        if self._context.stores.watched is None:
            # Nodes of full-mode requests may be outdated by now.
            return ""
        return why_not_on(self._context.stores.watched_node(node), pod, chosen_uid)

    async def _pod_of(self, request: _Request) -> core.Pod | None:
        """Return the pod to bind, whose schedulerName says which profile it has.

        A bind request names its pod and no more. The pod itself comes from the attempt that chose
        the node, or else from the watched pods if the pod is kept whole there, or else from the
        API.

        Returns: None if there is no such pod, and neither plugins nor the guard need it: the API
        then refuses the binding.
        Raises: ClusterError: the pod could not be read, or there is no such pod.
        """
        args, profiles = request.args, self._context.profiles.by_scheduler_name.values()
        pod = request.pod or await self._read(args)
        is_needed = self._guard is not None or any(each.binds_with_plugins for each in profiles)
        if pod is None and is_needed:
            message = f"there is no pod {args.pod_namespace}/{args.pod_name} of this UID"
            raise ClusterError(message)
        return pod

    async def _read(self, args: core.BindingArgs) -> core.Pod | None:
        """Return the pod of a bind request from the watch or the API; None: there is no such pod.

        Raises: ClusterError: the pod could not be read.
        """
        pod = None if self._cluster.pods is None else self._cluster.pods.store.get(args.pod_uid)
        if (pod is None or pod.truncated) and self._cluster.pod_reader is not None:
            get = partial(self._cluster.pod_reader.get, args.pod_namespace, args.pod_name)
            pod = await self._cluster.in_thread(get)
        return None if pod is None or pod.uid != args.pod_uid else pod

    async def _state_of(
        self, attempt: Attempt | None, profile: Profile, pod: core.Pod, request: _Request
    ) -> CycleState:
        """Return the CycleState of the pod's attempt, or run PreFilter for a new CycleState.

        PreFilter runs if the attempt is lost.

        Raises: PluginError: PreFilter failed.
        """
        if attempt is not None:
            return attempt.state
        state = CycleState()
        nodes = self._context.stores.nodes_named(request.args.node)
        prepare = partial(
            profile.run_pre_filter_plugins, state, pod, nodes, self._context.failures.left_out
        )
        await self._limits.within_async(self._verb_thread_s(request.time), prepare)
        return state

    def _verb_thread_s(self, time: BindTime) -> float:
        """Return for how many seconds a bind may use a thread on which other verbs run plugins.

        A plugin that hangs must not use up the minutes that a bind has: the threads are few.
        """
        left_s, most_s = seconds_to(time.plugins_until_s), self._context.settings.http_timeout_s
        return most_s if left_s is None else min(left_s, most_s)

    async def _in_turn(
        self, cycle: BindingCycle, run: Callable[[], Coroutine[None, None, Status]]
    ) -> Status:
        """Run the binding cycle, after cancelling an older request that binds the same pod.

        If the older request has bound the pod already, the cycle does not run.
        """
        uid = cycle.pod.uid
        while (older := self._under_way.get(uid)) is not None:
            # The older cycle gives up its reservations before the newer one reserves.
            await older.replace()
            if older.cycle.bound:
                return _bound_already(older.cycle.node_name, cycle.node_name)
        mine = self._under_way[uid] = _UnderWay(cycle, _this_task())
        binding = self._context.memory.binding
        binding[uid] = cycle.node_name
        try:
            return await run()
        except asyncio.CancelledError:
            if mine.given_up is None or mine.task.cancelling() > 1:
                raise
            return Status.error(_REPLACED)
        finally:
            del self._under_way[uid], binding[uid]
            mine.end()

    async def _assumed(self, profile: Profile, cycle: BindingCycle, lead: Lead) -> Status:
        """Run the binding cycle, with the pod counted on its node from before Reserve on.

        Before Reserve, filters that read the pods on nodes have to accept the node once more.
        Returns the status of the binding cycle, or the rejection by the filters.
        """
        if why_over := lead.why_over():
            # ``give_up`` may have come before the cycle was listed as under way, and the cycle
            # would wait in Permit.
            return Status.error(why_over)
        if self._cluster.pods is None:
            return await cycle.run()
        store = self._cluster.pods.store
        if profile.counts_pods:
            status = await self._take_room(profile, cycle, store)
        else:
            status = self._assume(cycle.pod, cycle.node_name)
        if not status.is_success:
            return status
        try:
            return await cycle.run()
        finally:
            if not cycle.bound:
                store.forget(cycle.pod.uid)

    async def _take_room(
        self, profile: Profile, cycle: BindingCycle, store: core.PodStore
    ) -> Status:
        """Return Success, with the pod assumed on its node, if the filters let it onto the node.

        kube-scheduler may ask about the next pod before it asks kubextend to bind this one, so
        filters may have let two pods onto room for one. Looking again and taking the room is one
        step.
        """
        places = self._context.memory.places
        status = await self._take_room_at_once(profile, cycle, store)
        for _ in range(_MOST_WAITS):
            if status.is_success or not (undecided := places.undecided(cycle.pod)):
                break
            groups = places.groups_on(cycle.pod, cycle.node_name)
            _LOGGER.info("members of %s may soon be bound to %s", groups, cycle.node_name)
            await asyncio.sleep(places.left_s(undecided))
            places.decide(undecided)
            status = await self._take_room_at_once(profile, cycle, store)
        return status

    async def _take_room_at_once(
        self, profile: Profile, cycle: BindingCycle, store: core.PodStore
    ) -> Status:
        pod, node, places = cycle.pod, cycle.node_name, self._context.memory.places
        taken = Status.success()

        # A thread that looked goes on after its timeout, and nobody would give back what it took.
        def take() -> None:
            nonlocal taken
            taken = self._assume(pod, node)
            if taken.is_success:
                places.forget(pod.uid)

        async with self._room:
            for _ in range(MOST_LOOKS):
                seen = places.pods_with_places(pod, store.snapshot)
                status = await self._look_again(profile, cycle, seen)
                if not status.is_success:
                    return status
                if places.if_unchanged(pod, node, seen, store.snapshot, take):
                    return taken
        return Status.error(_RESTLESS)

    async def _look_again(
        self, profile: Profile, cycle: BindingCycle, seen: core.PodSnapshot | None
    ) -> Status:
        """Return Success if the profile's filters still let the pod onto its node."""
        # Pods of all profiles that count pods wait here, so the time has to be short.
        look_s = self._verb_thread_s(cycle.time)
        return await self._limits.within_async(look_s, partial(self._fits, profile, cycle, seen))

    def _fits(self, profile: Profile, cycle: BindingCycle, seen: core.PodSnapshot | None) -> Status:
        """Return Success if the filters accept the node for the pod, counting assumed pods too.

        kube-scheduler does not filter at bind, so this method counts no nominated pods: two pods
        that are nominated to one node would block each other for ever. The first bind request wins.
        """
        nodes = self._context.stores.nodes_named(cycle.node_name)
        state, left_out = CycleState(), self._context.failures.left_out
        state.pods_seen = seen
        before = profile.run_pre_filter_plugins(state, cycle.pod, nodes, left_out)
        outcome = profile.run_filter_plugins(state, cycle.pod, nodes, before, left_out)
        if outcome.kept.any():
            return Status.success()
        return next(rejection.status for rejection in outcome.rejections if rejection.nodes.any())


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "it is awaited"  # noqa: S101  for the type checker
    return task


def _bound_already(node: str, wanted: str) -> Status:
    """Return the status for a request whose pod another request has bound."""
    if node == wanted:
        return Status.success()
    return Status.error(f"the pod is bound to node {node}, not to {wanted}")


def _refused(args: core.BindingArgs, why: str) -> Answer:
    _LOGGER.warning(
        "pod %s/%s is not bound to %s: %s", args.pod_namespace, args.pod_name, args.node, why
    )
    return binding(why)


def _missing_fields(args: core.BindingArgs) -> list[str]:
    fields = {
        "PodName": args.pod_name,
        "PodNamespace": args.pod_namespace,
        "PodUID": args.pod_uid,
        "Node": args.node,
    }
    return [field for field, value in fields.items() if not value]
