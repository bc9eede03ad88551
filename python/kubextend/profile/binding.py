"""The binding cycle: Reserve, Permit, PreBind, Bind, PostBind, and Unreserve on any failure.

Methods may be ``async``; the others are called on the event loop's executor, so that none of them
holds up another request.
Source: kubernetes v1.36 pkg/scheduler/schedule_one.go, pkg/scheduler/framework/runtime/framework.go
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubextend import core
from kubextend.errors import PluginError
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
from kubextend.profile.guard import guarded_async, status_of
from kubextend.profile.waiting_pods import MAX_PERMIT_WAIT_S, WaitingPod, WaitingPods

__all__ = ["BindingCycle", "BindingPlugins"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BindingPlugins:
    """The plugins of the binding cycle, in order."""

    reserve: Sequence[ReservePlugin] = ()
    permit: Sequence[PermitPlugin] = ()
    pre_bind: Sequence[PreBindPlugin] = ()
    bind: Sequence[BindPlugin] = ()
    post_bind: Sequence[PostBindPlugin] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return any((self.reserve, self.permit, self.pre_bind, self.bind, self.post_bind))


@dataclass(slots=True)
class BindingCycle:
    """One pod on its way to one node.

    Attributes:
        plugins: of its profile.
        state: of the attempt that chose the node.
        waiting_pods: where the pod is found while Permit holds it.
        default_bind: binds where no plugin does; raises what cannot be done.
        permit_rejected: afterwards, whether it was Permit that rejected the pod.
    """

    plugins: BindingPlugins
    state: CycleState
    pod: core.Pod
    node_name: str
    waiting_pods: WaitingPods
    default_bind: Callable[[], Awaitable[None]]
    permit_rejected: bool = field(default=False, init=False)
    _reserved: bool = field(default=False, init=False)

    async def run(self) -> Status:
        """Success: the pod is bound. Anything else: it is not, and nothing stays reserved.

        Raises:
            PluginError: a plugin failed; Unreserve of all has run.
            ClusterError: the Kubernetes API refused; Unreserve of all has run.
        """
        try:
            status = await self._until_bound()
        except BaseException:
            await self._unreserve()
            raise
        if status.is_success:
            await self._post_bind()
        else:
            await self._unreserve()
        return status

    async def _until_bound(self) -> Status:
        for step in (self._reserve, self._permit, self._pre_bind, self._bind):
            status = await step()
            if not status.is_success:
                self.permit_rejected = step == self._permit
                return status
        return Status.success()

    async def _reserve(self) -> Status:
        self._reserved = True
        for plugin in self.plugins.reserve:
            status = await self._status(plugin, "Reserve", plugin.reserve)
            if not status.is_success:
                return _rejected(plugin, "Reserve", status)
        return Status.success()

    async def _permit(self) -> Status:
        waits_s: dict[str, float] = {}
        for plugin in self.plugins.permit:
            answer = await self._call(plugin, "Permit", plugin.permit)
            status, wait_s = _permitted(plugin, answer)
            if status.code is Code.WAIT:
                waits_s[plugin.name] = min(wait_s, MAX_PERMIT_WAIT_S)
            elif not status.is_success:
                return _rejected(plugin, "Permit", status)
        return await self._wait(waits_s) if waits_s else Status.success()

    async def _wait(self, waits_s: dict[str, float]) -> Status:
        waiting = WaitingPod(self.pod, self.node_name, waits_s)
        self.waiting_pods.add(waiting)
        try:
            return await waiting.wait()
        finally:
            self.waiting_pods.remove(waiting)
            waiting.end()

    async def _pre_bind(self) -> Status:
        for plugin in self.plugins.pre_bind:
            status = await self._status(plugin, "PreBind", plugin.pre_bind)
            if not status.is_success:
                return _rejected(plugin, "PreBind", status)
        return Status.success()

    async def _bind(self) -> Status:
        for plugin in self.plugins.bind:
            status = await self._status(plugin, "Bind", plugin.bind)
            if status.code is Code.SKIP:
                continue
            return status if status.is_success else _rejected(plugin, "Bind", status)
        await self.default_bind()
        return Status.success()

    async def _post_bind(self) -> None:
        for plugin in self.plugins.post_bind:
            await self._for_information(plugin, "PostBind", plugin.post_bind)

    async def _unreserve(self) -> None:
        """All of them in reverse order, also those whose Reserve was not reached."""
        if not self._reserved:
            return
        for plugin in reversed(self.plugins.reserve):
            await self._for_information(plugin, "Unreserve", plugin.unreserve)

    async def _for_information(
        self, plugin: Plugin, point: str, method: Callable[..., Any]
    ) -> None:
        try:
            await self._call(plugin, point, method)
        except PluginError as error:
            _LOGGER.exception("%s", error)  # noqa: TRY401  the sentence names the plugin

    async def _status(self, plugin: Plugin, point: str, method: Callable[..., Any]) -> Status:
        return status_of(plugin, point, await self._call(plugin, point, method))

    async def _call(self, plugin: Plugin, point: str, method: Callable[..., Any]) -> Any:
        arguments = (self.state, self.pod, self.node_name)
        if inspect.iscoroutinefunction(method):
            call = method(*arguments)
        else:
            call = asyncio.to_thread(method, *arguments)
        return await guarded_async(plugin, point, call)


def _permitted(plugin: Plugin, answer: object) -> tuple[Status, float]:
    if isinstance(answer, tuple):
        status, wait_s = answer
        return status_of(plugin, "Permit", status), float(wait_s)
    # Without a timeout it fires at once, as a timeout of zero does in the scheduler.
    return status_of(plugin, "Permit", answer), 0.0


def _rejected(plugin: Plugin, point: str, status: Status) -> Status:
    """A rejection as it is; anything else is the plugin's failure.

    Raises: PluginError: it is none.
    """
    if status.is_rejected:
        return status
    raise PluginError(plugin.name, point, status.reason or status.code.name)
