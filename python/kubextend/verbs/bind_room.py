"""Takes the room on a node for a pod that is to be bound there.

kube-scheduler may ask about the next pod before it asks kubextend to bind this one, so filters may
have let two pods onto room for one. They look at the node once more, with the pods and places that
count by now, before the pod counts there.
"""

import asyncio
import logging
from functools import partial

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status
from kubextend.profile import BindingCycle, BindTime, Profile
from kubextend.profile.binding_cycle import seconds_to
from kubextend.verbs.context import Context
from kubextend.verbs.group_places import MOST_LOOKS, MOST_WAITS

__all__ = ["Room", "why_rejected"]

_LOGGER = logging.getLogger(__name__)

_RESTLESS = "the pods on the node kept changing"


class Room:
    """Lets the pods of all binds onto their nodes, those of filters that count pods one by one.

    Args:
        context: what all verbs share.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._guard, self._places = context.guard, context.places
        # A lock for tasks and not for threads: a thread that hangs must not hold the lock for ever.
        self._looking = asyncio.Lock()

    async def take(self, profile: Profile | None, cycle: BindingCycle) -> str:
        """Count the pod on its node; where filters count pods, if they let it there once more.

        If they do not, and members of a pod group may or may not be bound there, wait and look
        again.

        Returns: why the pod must not be bound to the node, and does not count there; "": it may.
        """
        pods = self._context.cluster.pods
        if pods is None:
            return ""
        pod, node, store = cycle.pod, cycle.node_name, pods.store
        if profile is None or not profile.counts_pods:
            return self._assume(pod, node, store)
        why_not = await self._look_and_take(profile, cycle, store)
        for _ in range(MOST_WAITS):
            if not why_not or (open_s := self._places.open_s(pod, node)) <= 0:
                break
            _LOGGER.info("members of a pod group may soon be bound to %s", node)
            await asyncio.sleep(open_s)
            why_not = await self._look_and_take(profile, cycle, store)
        return why_not

    async def _look_and_take(
        self, profile: Profile, cycle: BindingCycle, store: core.PodStore
    ) -> str:
        """Count the pod on its node in one step with the look; return as ``take`` does."""
        pod, node = cycle.pod, cycle.node_name
        # Pods of all profiles that count pods wait here, so the time has to be short.
        look_s, limits = self.thread_s(cycle.time), self._context.limits
        async with self._looking:
            for _ in range(MOST_LOOKS):
                seen = self._places.pods_with_places(pod, store.snapshot)
                look = partial(self._why_not_fit, profile, pod, node, seen)
                if why_not := await limits.within_async(look_s, look):
                    return why_not
                with self._places.unchanged(pod, node, seen, store.snapshot) as same:
                    if same:
                        return self._assume(pod, node, store)
        return _RESTLESS

    def thread_s(self, time: BindTime) -> float:
        """Return for how many seconds a bind may use a thread on which other verbs run plugins.

        A plugin that hangs must not use up the minutes that a bind has: the threads are few.
        """
        left_s = seconds_to(time.plugins_until_s)
        most_s = self._context.config.extender.http_timeout.seconds
        return most_s if left_s is None else min(left_s, most_s)

    def _why_not_fit(
        self, profile: Profile, pod: core.Pod, node: str, seen: core.PodSnapshot | None
    ) -> str:
        """Return why the filters do not accept the node for the pod, counting assumed pods too.

        kube-scheduler does not filter at bind, so this method counts no nominated pods: two pods
        that are nominated to one node would block each other for ever. The first bind request wins.
        """
        nodes = self._context.nodes_named(node)
        state, left_out = CycleState(), self._context.failures.left_out
        state.pods_seen = seen
        before = profile.run_pre_filter_plugins(state, pod, nodes, left_out)
        outcome = profile.run_filter_plugins(state, pod, nodes, before, left_out)
        if outcome.kept.any():
            return ""
        return why_rejected(next(each.status for each in outcome.rejections if each.nodes.any()))

    def _assume(self, pod: core.Pod, node: str, store: core.PodStore) -> str:
        """Count the pod on its node from now on, unless the guard finds no room there."""
        if self._guard is not None:
            return self._guard.assume(pod, node)
        store.assume(pod, node)
        return ""


def why_rejected(status: Status) -> str:
    """Return why a pod is not bound, also where a status has no reason; "" for Success."""
    return "" if status.is_success else status.reason or status.code.name
