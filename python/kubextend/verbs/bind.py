"""The bind verb: runs the binding cycle of a pod for the node that kube-scheduler chose."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kubextend import core
from kubextend.errors import ClusterError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Binder
from kubextend.framework.status import Status
from kubextend.profile import BindingCycle, BindTime, Profile
from kubextend.profile.plugin_calls import Run
from kubextend.verbs.answer import Answer, Body, binding
from kubextend.verbs.chosen_node import DELETED, GONE, why_not_on
from kubextend.verbs.context import Context
from kubextend.verbs.failures import sentence
from kubextend.verbs.group_places import MOST_LOOKS
from kubextend.verbs.request_counts import counting
from kubextend.verbs.unplaced_pods import Attempt
from kubextend.verbs.verb import OnJob

__all__ = ["BindVerb"]

_LOGGER = logging.getLogger(__name__)
_NO_BINDER = (
    "kubextend cannot bind: it has no access to the Kubernetes API; configure `cluster`, or take "
    "bindVerb out of kube-scheduler's extender entry"
)
_TOO_LATE = "kubextend has not bound the pod in time"
_RESTLESS = "the pods on the node kept changing"
_REPLACED = "a newer bind request for this pod took its place"


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
    holds_body: Final = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cluster = context.cluster
        self._limits = context.memory.limits
        self._unplaced = context.memory.unplaced
        self._under_way: dict[str, _UnderWay] = {}
        self._bindings: set[str] = set()
        # A lock for tasks and not for threads: a thread that hangs must not hold the lock for ever.
        self._room = asyncio.Lock()

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
            on_job: never called, because no thread uses the body.

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
        if self._cluster.binder is None:
            return binding(_NO_BINDER)
        try:
            with Run(self._limits.breakers):
                bind_time = BindTime(arrived_s, self._context.settings.bind_timeout_s)
                answer = await self._decided(args, self._cluster.binder, bind_time)
        except TimeoutError:
            return _refused(args, _TOO_LATE)
        except ClusterError as refusal:
            return _refused(args, str(refusal) or "the Kubernetes API refused the binding")
        except PluginError as error:
            self._context.failures.note(error, "bind fails")
            return _refused(args, sentence(error))
        if answer.result != "error":
            self._unplaced.forget(args.pod_uid)
        return answer

    async def _decided(self, args: core.BindingArgs, binder: Binder, bind_time: BindTime) -> Answer:
        self._context.memory.places.bind_begins(args.pod_uid)
        attempt = self._unplaced.take(args.pod_uid)
        pod = await self._pod_of(args, attempt)
        profile = None if pod is None else self._context.profiles.for_pod(pod)
        default_bind = partial(self._post, args, binder, bind_time)
        if pod is None:
            await default_bind()
            return binding()
        if profile is None or not profile.binds_with_plugins:
            return self._context.unknown_schedulers.passes(
                pod, await self._bound_without_plugins(pod, args.node, default_bind)
            )
        if why_not := self._context.readiness.why_not(self.name, profile):
            return binding(why_not)
        chosen = self._context.stores.watched_node(args.node)
        chosen_uid = None if chosen is None else chosen.uid
        state = await self._state_of(attempt, profile, pod, args.node, bind_time)
        cycle = BindingCycle(
            profile.binding,
            state,
            pod,
            args.node,
            self._context.memory.waiting_pods,
            default_bind,
            self._limits,
            bind_time,
            partial(self._why_not_on, args.node, pod, chosen_uid),
        )
        status = await self._bound(profile, cycle)
        return binding() if status.is_success else _refused(args, status.reason or status.code.name)

    async def _bound_without_plugins(
        self, pod: core.Pod, node: str, default_bind: Callable[[], Coroutine[None, None, None]]
    ) -> Answer:
        """Bind a pod that has no profile, or whose profile has no plugin at a point of bind.

        If kubextend watches pods, filters count the pod on its node from before the API call on.
        """
        if self._cluster.pods is None:
            await default_bind()
            return binding()
        bound = False
        self._cluster.pods.store.assume(pod, node)
        try:
            await default_bind()
            bound = True
        finally:
            if not bound:
                self._cluster.pods.store.forget(pod.uid)
                self._unplaced.expect_change()
        return binding()

    async def _bound(self, profile: Profile, cycle: BindingCycle) -> Status:
        pod = cycle.pod
        try:
            status = await self._in_turn(cycle, partial(self._assumed, profile, cycle))
        finally:
            if not cycle.bound:
                # kube-scheduler lets go of a deleted pod at once, and may ask about the next pod
                # while the deleted one still has its reservations.
                self._unplaced.expect_change()
        if cycle.permit_rejected and status.is_rejected and not self._is_gone(pod):
            delay_s = self._delay_s(cycle)
            # Before the wait: whatever wakes or ends the pod meanwhile counts more.
            self._unplaced.reject_permit(pod, status, delay_s)
            await self._context.memory.throttle.wait(delay_s)
        return status

    def _is_gone(self, pod: core.Pod) -> bool:
        """Return whether kubextend watches pods and the watch does not show the pod any more."""
        return self._cluster.pods is not None and self._cluster.pods.store.get(pod.uid) is None

    def _delay_s(self, cycle: BindingCycle) -> float:
        """Return the seconds for which the answer that Permit rejected the pod has to wait.

        kubextend's scheduling queue waits for a pod that was not held, so the answer about such a
        pod leaves at once.
        """
        if not cycle.was_held:
            return 0.0
        delay_s = self._context.memory.throttle.delay_s(cycle.pod.namespace)
        left_s = cycle.time.cleanup_left_s()
        return delay_s if left_s is None else max(0.0, min(delay_s, left_s))

    async def _post(self, args: core.BindingArgs, binder: Binder, bind_time: BindTime) -> None:
        """Post the Binding of a pod to the Kubernetes API, and wait until the API has answered.

        Raises:
            ClusterError: the API refused, so the pod is not bound.
            TimeoutError: kube-scheduler has given up, or soon will, and may place the pod anew.
        """

        def write() -> None:
            # The write may begin late, because no thread was free earlier.
            left_s = bind_time.all_left_s()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            names = args.pod_namespace, args.pod_name, args.pod_uid, args.node
            binder.bind(*names, timeout_s=left_s)

        binding_of = f"{args.pod_namespace}/{args.pod_name} to node {args.node}"
        self._bindings.add(binding_of)
        try:
            await self._cluster.in_thread(write)
        finally:
            self._bindings.discard(binding_of)

    def bindings_under_way(self) -> list[str]:
        """Return "namespace/pod to node N" for each Binding that the API has not answered yet."""
        return sorted(self._bindings)

    def node_deleted(self, name: str) -> None:
        """Fail each bind to a deleted node, also of pods that Permit holds; any thread may call."""
        for under_way in list(self._under_way.values()):
            if under_way.cycle.node_name == name:
                under_way.cycle.lose_node(DELETED)

    def nodes_listed(self) -> None:
        """Fail each bind to a node that the last list of nodes lacks; any thread may call."""
        for under_way in list(self._under_way.values()):
            if under_way.cycle.why_not_there() in GONE:
                under_way.cycle.lose_node(DELETED)

    def _why_not_on(self, node: str, pod: core.Pod, chosen_uid: str | None) -> str:
        if self._context.stores.watched is None:
            # Nodes of full-mode requests may be outdated by now.
            return ""
        return why_not_on(self._context.stores.watched_node(node), pod, chosen_uid)

    async def _pod_of(self, args: core.BindingArgs, attempt: Attempt | None) -> core.Pod | None:
        """Return the pod to bind; None if no profile has a plugin at a point of bind.

        A bind request names its pod and no more. The pod itself comes from the attempt that chose
        the node, or else from the watched pods if the pod is kept whole there, or else from the
        API.

        Raises: ClusterError: the pod could not be read.
        """
        if not self._context.profiles.bind_with_plugins:
            return None
        if attempt is not None:
            return attempt.pod
        pod = None if self._cluster.pods is None else self._cluster.pods.store.get(args.pod_uid)
        if (pod is None or pod.truncated) and self._cluster.pod_reader is not None:
            get = partial(self._cluster.pod_reader.get, args.pod_namespace, args.pod_name)
            pod = await self._cluster.in_thread(get)
        if pod is None or pod.uid != args.pod_uid:
            message = f"there is no pod {args.pod_namespace}/{args.pod_name} of this UID"
            raise ClusterError(message)
        return pod

    async def _state_of(
        self,
        attempt: Attempt | None,
        profile: Profile,
        pod: core.Pod,
        node: str,
        bind_time: BindTime,
    ) -> CycleState:
        """Return the CycleState of the pod's attempt; without an attempt, run PreFilter for one.

        Raises: PluginError: PreFilter failed.
        """
        if attempt is not None:
            return attempt.state
        state = CycleState()
        nodes = self._context.stores.nodes_named(node)
        prepare = partial(
            profile.run_pre_filter_plugins, state, pod, nodes, self._context.failures.left_out
        )
        await self._limits.within_async(bind_time.plugins_left_s(), prepare)
        return state

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
        try:
            return await run()
        except asyncio.CancelledError:
            if mine.given_up is None or mine.task.cancelling() > 1:
                raise
            return Status.error(_REPLACED)
        finally:
            del self._under_way[uid]
            mine.end()

    async def _assumed(self, profile: Profile, cycle: BindingCycle) -> Status:
        """Run the binding cycle, with the pod counted on its node from before Reserve on.

        Before Reserve, filters that read the pods on nodes have to accept the node once more.
        Returns the status of the binding cycle, or the rejection by the filters.
        """
        if self._cluster.pods is None:
            return await cycle.run()
        store = self._cluster.pods.store
        if profile.counts_pods:
            status = await self._take_room(profile, cycle, store)
            if not status.is_success:
                return status
        else:
            store.assume(cycle.pod, cycle.node_name)
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
        if status.is_success or not (wait_s := places.undecided_s(cycle.pod)):
            return status
        groups = places.groups_on(cycle.pod, cycle.node_name)
        _LOGGER.info("members of %s may soon be bound to %s", groups, cycle.node_name)
        await asyncio.sleep(wait_s)
        places.decide(cycle.pod)
        return await self._take_room_at_once(profile, cycle, store)

    async def _take_room_at_once(
        self, profile: Profile, cycle: BindingCycle, store: core.PodStore
    ) -> Status:
        pod, node, places = cycle.pod, cycle.node_name, self._context.memory.places

        # A thread that looked goes on after its timeout, and nobody would give back what it took.
        def take() -> None:
            store.assume(pod, node)
            places.forget(pod.uid)

        async with self._room:
            for _ in range(MOST_LOOKS):
                seen = places.pods_with_places(pod, store.snapshot)
                status = await self._look_again(profile, cycle, seen)
                if not status.is_success:
                    return status
                if places.if_unchanged(pod, node, seen, store.snapshot, take):
                    return status
        return Status.error(_RESTLESS)

    async def _look_again(
        self, profile: Profile, cycle: BindingCycle, seen: core.PodSnapshot | None
    ) -> Status:
        """Return Success if the profile's filters still let the pod onto its node."""
        # Pods of all profiles that count pods wait here, so a filter that hangs must not use up the
        # minutes that a bind has.
        left_s = cycle.time.plugins_left_s()
        look_s = self._context.settings.http_timeout_s
        if left_s is not None:
            look_s = min(left_s, look_s)
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
