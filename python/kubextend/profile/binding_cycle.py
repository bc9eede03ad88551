"""The binding cycle: Reserve, Permit, PreBind, Bind, PostBind, and Unreserve on any failure.

The plugins' methods may be ``async``. kubextend calls other methods on threads, so that these
methods do not delay other requests. An ``async`` method that blocks delays every request.

Source: kubernetes v1.36 pkg/scheduler/schedule_one.go, pkg/scheduler/framework/runtime/framework.go
"""

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

from kubextend import core
from kubextend.errors import ClusterError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import (
    BindPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
)
from kubextend.framework.status import Code, Status
from kubextend.framework.wrong_answer import wrong_answer
from kubextend.profile.guarded_calls import (
    about,
    error_of,
    guarded,
    guarded_async,
    seconds_until,
    status_of,
    take_note,
    times_cancelled,
)
from kubextend.profile.run_in_progress import PluginCall
from kubextend.profile.time_limited_calls import PluginLimits
from kubextend.profile.waiting_pods import WaitingPod, WaitingPods

__all__ = ["BindTime", "BindingCycle", "BindingPlugins", "seconds_to"]

# How long before kube-scheduler's timeout a plugin's call, the whole cycle and the cleanup end: as
# a share of the timeout, and the most seconds. A plugin is given up before the whole cycle, so that
# the error names the plugin.
_AFTER_PLUGINS: Final = (0.20, 20.0)
_AFTER_ALL: Final = (0.15, 15.0)
_AFTER_CLEANUP: Final = (0.05, 5.0)
# How often kubextend looks whether the pod that a Bind plugin binds may still be bound. Another
# replica leads 5 s after this one has ceased to, at the earliest.
_LOOK_S: Final = 0.5
# How long each Unreserve may take at least, even if the others have used up the cleanup's time.
_LEAST_UNRESERVE: Final = (0.02, 1.0)


@dataclass(frozen=True, slots=True)
class BindingPlugins:
    """The plugins of a profile at each extension point of the binding cycle, in order."""

    reserve: Sequence[ReservePlugin] = ()
    permit: Sequence[PermitPlugin] = ()
    pre_bind: Sequence[PreBindPlugin] = ()
    bind: Sequence[BindPlugin] = ()
    post_bind: Sequence[PostBindPlugin] = ()

    @classmethod
    def of(cls, at: Callable[[str], Sequence[Any]]) -> Self:
        """Make a BindingPlugins from the plugins of a profile.

        Args:
            at: returns the plugins at the point with this name in the configuration, in order.
        """
        return cls(*map(at, ("reserve", "permit", "preBind", "bind", "postBind")))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins of all points; a plugin that extends several points occurs several times."""
        return (*self.reserve, *self.permit, *self.pre_bind, *self.bind, *self.post_bind)

    def __bool__(self) -> bool:
        """Return whether the profile has a plugin at any point of the binding cycle."""
        return bool(self.plugins)


@dataclass(frozen=True, slots=True)
class BindTime:
    """The time limits of one bind request, on the clock of ``time.monotonic``.

    Attributes:
        arrived_s: the time at which the request arrived.
        timeout_s: seconds after which kube-scheduler's request times out; None: never.
    """

    arrived_s: float = field(default_factory=time.monotonic)
    timeout_s: float | None = None

    @property
    def plugins_until_s(self) -> float | None:
        """The time by which each call of a plugin must return; None: no limit.

        The time is in monotonic seconds. Unreserve and PostBind have the later limit
        ``cleanup_until_s``.
        """
        return self._until(_AFTER_PLUGINS)

    @property
    def all_until_s(self) -> float | None:
        """The time by which the binding cycle, Permit's wait included, must end; None: no limit."""
        return self._until(_AFTER_ALL)

    @property
    def cleanup_until_s(self) -> float | None:
        """The time by which Unreserve and PostBind must return; None: no limit.

        The time after this limit is left for sending the answer to the bind request.
        """
        return self._until(_AFTER_CLEANUP)

    def unreserve_until_s(self, later: int) -> float | None:
        """Return the time by which a call of Unreserve that begins now must return; None: no limit.

        Args:
            later: how many plugins' Unreserve comes after this one; the limit leaves time for each.
        """
        until_s = self.cleanup_until_s
        if until_s is None:
            return None
        return max(until_s - later * self.least_s, time.monotonic() + self.least_s)

    @property
    def least_s(self) -> float:
        """The seconds that each Unreserve gets at least, and in which a cancelled one must end."""
        share, most_s = _LEAST_UNRESERVE
        return most_s if self.timeout_s is None else min(self.timeout_s * share, most_s)

    def _until(self, left_over: tuple[float, float]) -> float | None:
        if self.timeout_s is None:
            return None
        share, most_s = left_over
        return self.arrived_s + self.timeout_s - min(self.timeout_s * share, most_s)


def seconds_to(until_s: float | None) -> float | None:
    """Return the seconds until a time on the clock of ``time.monotonic``; None: there is none."""
    return None if until_s is None else until_s - time.monotonic()


@dataclass(slots=True)
class BindingCycle:
    """The binding cycle of one pod and the node that kube-scheduler chose for the pod.

    Attributes:
        plugins: the plugins of the pod's profile.
        state: the CycleState of the attempt that chose the node.
        pod: the pod.
        node_name: the name of the node.
        waiting_pods: lists the pod while Permit plugins hold it.
        default_bind: binds the pod if no Bind plugin does; raises ClusterError on failure.
        limits: the threads on which plugins are called.
        time: the time limits of the cycle.
        why_over: returns why the pod must not be bound at all any more; "" if it may be bound.
            Called before Reserve, Permit, PreBind and Bind, when Permit begins to hold the pod, and
            again and again while a Bind plugin runs.
        why_not_there: returns why the pod must no longer be bound to the node; "" if it may be
            bound. Called before PreBind, before Bind, and by ``why_not_now``.
        why_no_room: returns why the node, by its name, has no room any more for the pod, by its
            UID; "" if it has. Called when ``why_not_there`` is.
        on_late_unreserve: called if a plugin's Unreserve has run after the end of the cycle.
        was_held: whether Permit held the pod for a time; valid after ``run``.
        bound: whether the pod was bound, even if the cycle failed afterwards.
        rejected_by: the plugin that rejected the pod, and the extension point; empty: none did.
        held_s: for how many seconds Permit held the pod; None: Permit has not held it.
    """

    plugins: BindingPlugins
    state: CycleState
    pod: core.Pod
    node_name: str
    waiting_pods: WaitingPods
    default_bind: Callable[[], Awaitable[None]]
    limits: PluginLimits
    time: BindTime = field(default_factory=BindTime)
    why_over: Callable[[], str] = lambda: ""
    why_not_there: Callable[[], str] = lambda: ""
    why_no_room: Callable[[str, str], str] = lambda _uid, _node: ""
    on_late_unreserve: Callable[[], object] = lambda: None
    was_held: bool = field(default=False, init=False)
    bound: bool = field(default=False, init=False)
    rejected_by: tuple[str, str] = field(default=("", ""), init=False)
    held_s: float | None = field(default=None, init=False)
    _reserved: bool = field(default=False, init=False)
    _lost: str = field(default="", init=False)
    _cancelled_before: int = field(default=0, init=False)

    async def run(self) -> Status:
        """Run the binding cycle; return Success if the pod is bound, else a rejecting Status.

        If the pod is not bound, Unreserve of every Reserve plugin has run when this method returns
        or raises. If another method of a Reserve plugin goes on on a thread after that, the
        plugin's Unreserve runs again once the method has returned; until then no other cycle
        reserves for the pod.

        Raises:
            PluginError: a plugin failed.
            ClusterError: the Kubernetes API refused the Binding, or a Bind plugin was cancelled.
            TimeoutError: kube-scheduler is about to give up the request.
        """
        self._cancelled_before = times_cancelled()
        try:
            async with seconds_until(self.time.all_until_s):
                status = Status.success()
                for why_not, step in (
                    (self._why_over, self._reserve),
                    # A pod that is gone must not complete its gang.
                    (self._why_over, self._permit),
                    (self.why_not_now, self._pre_bind),
                    (self.why_not_now, self._bind),
                ):
                    status = Status.error(why) if (why := why_not()) else await step()
                    if not status.is_success:
                        break
        except BaseException:
            await self._give_up()
            raise
        self.bound = status.is_success
        if not self.bound:
            await self._give_up()
        elif self.plugins.post_bind:
            await _to_the_end(self._post_bind())
        return status

    @property
    def permit_rejected(self) -> bool:
        """Whether Permit rejected the pod; valid after ``run``."""
        return self.rejected_by[1] == "Permit"

    def lose_node(self, why: str) -> None:
        """Make the binding cycle fail before it binds the pod, and end a wait in Permit.

        Any thread may call this method.

        Args:
            why: the reason why the pod must not be bound to the node.
        """
        self._lost = why
        waiting = self.waiting_pods.get(self.pod.uid)
        if waiting is not None and waiting.node_name == self.node_name:
            waiting.send_back(why)

    def _why_over(self) -> str:
        return self._lost or self.why_over()

    def why_not_now(self) -> str:
        """Return why the pod must not be bound now; "" if it may be. Any thread may call."""
        why_not = self._why_over() or self.why_not_there()
        return why_not or self.why_no_room(self.pod.uid, self.node_name)

    async def _reserve(self) -> Status:
        if (late := self.limits.late.of(self.pod.uid)) is not None:
            # It may overwrite or free whatever this cycle reserves.
            return Status.error(
                f"an earlier {late.extension_point} of plugin {late.plugin} for this pod has not"
                " returned"
            )
        self._reserved = True
        for plugin in self.plugins.reserve:
            status = await self._status(plugin, "Reserve", "reserve")
            if not status.is_success:
                return self._rejected(plugin, "Reserve", status)
        return Status.success()

    async def _permit(self) -> Status:
        waits_s: dict[str, float] = {}
        for plugin in self.plugins.permit:
            answer = await self._call(plugin, "Permit", "permit", self.time.plugins_until_s)
            with guarded(plugin, "Permit", self.pod):
                said, wait_s = _permitted(answer)
            status = self._said(plugin, "Permit", said)
            if status.code is Code.WAIT:
                waits_s[plugin.name] = min(max(wait_s, 0.0), self.waiting_pods.max_wait_s)
            elif not status.is_success:
                return self._rejected(plugin, "Permit", status)
        return await self._wait(waits_s) if waits_s else Status.success()

    async def _wait(self, waits_s: dict[str, float]) -> Status:
        waiting = WaitingPod(self.pod, self.node_name, waits_s)
        self.waiting_pods.add(waiting)
        self.was_held = self.waiting_pods.get(self.pod.uid) is waiting
        if why := self._why_over():
            # Whoever ended the cycle before the pod was held found nothing to send back.
            waiting.send_back(why)
        began_s, result = time.monotonic(), "Error"
        try:
            status = await waiting.wait()
            result = status.code.name.replace("_", " ").title().replace(" ", "")
        finally:
            self.limits.metrics.permit_wait(result).observe(time.monotonic() - began_s)
            self.waiting_pods.remove(waiting)
            waiting.end()
            self.held_s = time.time() - waiting.since_s
        if status.is_rejected:
            self.rejected_by = waiting.rejected_by, "Permit"
        return status

    async def _pre_bind(self) -> Status:
        for plugin in self.plugins.pre_bind:
            status = await self._status(plugin, "PreBind", "pre_bind")
            if not status.is_success:
                return self._rejected(plugin, "PreBind", status)
        return Status.success()

    async def _bind(self) -> Status:
        for plugin in self.plugins.bind:
            status = await self._bound_by(plugin)
            if status.code is Code.SKIP:
                continue
            return status if status.is_success else self._rejected(plugin, "Bind", status)
        await self.default_bind()
        return Status.success()

    async def _bound_by(self, plugin: BindPlugin) -> Status:
        """Return a Bind plugin's Status; cancel the plugin once the pod must not be bound any more.

        A method that is not ``async`` goes on, on its thread; its result is dropped.

        Raises: ClusterError: the plugin was cancelled; the message says why.
        """
        loop, why = asyncio.get_running_loop(), ""
        try:
            async with asyncio.timeout(None) as limit:
                next_look: asyncio.TimerHandle

                def look() -> None:
                    nonlocal why, next_look
                    if why := self._why_over():
                        limit.reschedule(loop.time())
                    else:
                        next_look = loop.call_later(_LOOK_S, look)

                next_look = loop.call_later(_LOOK_S, look)
                try:
                    return await self._status(plugin, "Bind", "bind")
                finally:
                    next_look.cancel()
        except TimeoutError:
            if not why:
                raise
            raise ClusterError(why) from None

    async def _post_bind(self) -> None:
        for plugin in self.plugins.post_bind:
            until_s = self.time.cleanup_until_s
            await self._for_information(plugin, "PostBind", "post_bind", until_s)

    async def _give_up(self) -> None:
        with self.waiting_pods.unreserving(self.pod.uid):
            await _to_the_end(self._unreserve())

    async def _unreserve(self) -> None:
        """Call Unreserve of every Reserve plugin in reverse order, if Reserve has begun at all.

        The method also calls plugins whose Reserve was not called.
        """
        if not self._reserved:
            return
        for later, plugin in reversed(list(enumerate(self.plugins.reserve))):
            await self._unreserve_one(plugin, later)

    async def _unreserve_one(self, plugin: ReservePlugin, later: int = 0) -> None:
        deadline_s = self.time.unreserve_until_s(later)
        await self._for_information(plugin, "Unreserve", "unreserve", deadline_s)

    def _outlived(self, plugin: Any, point: str, returned: "asyncio.Future[None]") -> None:
        """Note that a method of a Reserve plugin goes on, though its time is over."""
        end = self._late_end(plugin, point, returned)
        self.limits.late.add(self.pod.uid, PluginCall(plugin.name, point), end)

    async def _late_end(
        self, plugin: ReservePlugin, point: str, returned: "asyncio.Future[None]"
    ) -> None:
        """Await the return of a late call; call Unreserve unless the call was that."""
        await returned
        if point != "Unreserve":
            # The run of the bind request is over.
            with self.limits.run():
                await self._unreserve_one(plugin)
        self.on_late_unreserve()

    async def _for_information(
        self, plugin: Plugin, point: str, method: str, deadline_s: float | None
    ) -> None:
        """Call a method that cannot fail the bind, and report its failure; never raise.

        The method has a task of its own: it may cancel that, or go on though it is cancelled, and
        the methods of other plugins are called all the same.
        """
        call = asyncio.ensure_future(self._call(plugin, point, method, deadline_s))
        _, going_on = await asyncio.wait([call], timeout=seconds_to(deadline_s))
        if going_on:
            await asyncio.wait([call], timeout=self.time.least_s)
        if not call.done():
            error = PluginError(plugin.name, point, "goes on though it was cancelled")
            # Nobody hears how it ends, and the event loop would log that.
            call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            if point == "Unreserve":
                late = PluginCall(plugin.name, point)
                self.limits.late.add(self.pod.uid, late, asyncio.wait([call]))
        elif call.cancelled():
            error = PluginError(plugin.name, point, "has cancelled its own task")
        elif isinstance(raised := call.exception(), PluginError):
            error = raised
        elif call.result() is not None:
            error = PluginError(plugin.name, point, str(wrong_answer(call.result(), "None")))
        else:
            return
        about(error, self.pod, self.node_name)
        self.limits.failures.note(error, f"{point} of the other plugins goes on")

    async def _status(self, plugin: Plugin, point: str, method: str) -> Status:
        deadline_s = self.time.plugins_until_s
        return self._said(plugin, point, await self._call(plugin, point, method, deadline_s))

    def _said(self, plugin: Plugin, point: str, answer: object) -> Status:
        try:
            status = status_of(plugin, point, answer, self.pod)
        except PluginError as error:
            error.node = self.node_name
            raise
        take_note(plugin, point, self.pod, status, f"node {self.node_name}")
        is_bound = point == "Bind" and status.is_success
        if times_cancelled() > self._cancelled_before and not is_bound:
            # The plugin caught the cancellation of the cycle, which ends nevertheless.
            raise asyncio.CancelledError
        return status

    def _rejected(self, plugin: Plugin, point: str, status: Status) -> Status:
        """Check that a plugin's Status is a rejection, and return the Status.

        Raises: PluginError: the Status is no rejection, which is the plugin's failure.
        """
        if status.is_rejected:
            self.rejected_by = plugin.name, point
            return status
        raise about(error_of(plugin, point, status), self.pod, self.node_name)

    async def _call(self, plugin: Plugin, point: str, name: str, deadline_s: float | None) -> Any:
        """Await a plugin's method, on a thread if it is not ``async``, and return its result.

        The result is awaited too if a decorator hides that the plugin's method is ``async``.
        """
        guard = guarded_async(
            plugin, point, self.pod, deadline_s=deadline_s, cleanup=point == "Unreserve"
        )
        try:
            async with guard:
                method = getattr(plugin, name)
                call = partial(method, self.state, self.pod, self.node_name)
                if inspect.iscoroutinefunction(method):
                    return await call()
                returned, result = self.limits.binding_call(
                    plugin.name,
                    deadline_s,
                    call,
                    cleanup=point in ("Unreserve", "PostBind"),
                    on_late=self._on_late(plugin, point),
                )
                await returned
                answer = result.result()
                return await answer if inspect.isawaitable(answer) else answer
        except PluginError as error:
            error.node = self.node_name
            raise

    def _on_late(
        self, plugin: Plugin, point: str
    ) -> "Callable[[asyncio.Future[None]], object] | None":
        """Return what to call if a method goes on though its time is over; None: nothing.

        kube-scheduler calls Unreserve when the methods before it have returned, so each of them may
        leave what the plugin's Unreserve has to free.
        """
        reserves = any(each is plugin for each in self.plugins.reserve)
        is_undone = reserves and point != "PostBind"
        return partial(self._outlived, plugin, point) if is_undone else None


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """Await some work to its end; raise a cancellation of this task only afterwards.

    A newer request for the pod, or a client that disconnects, may cancel the cycle during Unreserve
    or PostBind. Without this function the remaining plugins would not be called, and would keep
    their reservations for ever.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def _permitted(answer: object) -> tuple[object, float]:
    """Split the result of a Permit plugin into a status and the seconds to hold the pod.

    Raises:
        TypeError: the result is neither None, nor a Status, nor a Status with seconds.
        ValueError: the seconds are NaN.
    """
    if answer is None or isinstance(answer, Status):
        # A wait without a timeout ends at once, as a timeout of zero does in kube-scheduler.
        return answer, 0.0
    match answer:
        case [Status() | None as said, int() | float() as wait_s] if not isinstance(wait_s, bool):
            pass
        case [Status() | None, wait_s]:
            raise wrong_answer(wait_s, "an int or a float as the seconds of (Status, seconds)")
        case _:
            raise wrong_answer(answer, "a Status, None or (Status.wait(), seconds)")
    if math.isnan(wait_s):
        message = "a timeout of NaN seconds"
        raise ValueError(message)
    return said, float(wait_s)
