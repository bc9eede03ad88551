"""The main program of a child process: runs one plugin, and serves the parent's calls to it.

The child runs the plugin in a ``Profile``, which checks results as in the parent. The child ends
when its parent ends: the socket is closed, or a signal comes while a call runs.
"""

import fcntl
import logging
import os
import socket
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry

from kubextend import core, logs
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.plugin import PreFilterResult, Rejection
from kubextend.framework.status import Status
from kubextend.profile.isolation.channel import Channel
from kubextend.profile.isolation.child_spec import ChildSpec
from kubextend.profile.isolation.protocol import (
    Failure,
    Message,
    MessageError,
    Packed,
    packed_pre_filter,
    packed_rejections,
    packed_scores,
    packed_status,
    unpacked_rejections,
)
from kubextend.profile.plugin_errors import AnsweredError
from kubextend.profile.profile import Profile, post_filtered, pre_filtered
from kubextend.profile.waiting_pods import WaitingPods

__all__ = ["main"]

_LOGGER = logging.getLogger(__name__)

# The parent keeps about as many attempts; PreFilter makes a lost state anew.
_MOST_STATES: Final = 4096


def main(channel: int, life: int) -> None:
    """Make the plugin, serve the parent's calls until the parent is gone, and exit.

    Args:
        channel: file descriptor of a socket to the parent.
        life: file descriptor of a pipe whose other end is closed when the parent ends.
    """
    _end_with(life)
    code = 1
    try:
        _serve(Channel(socket.socket(fileno=channel)))
    except (OSError, EOFError):
        code = 0
    except BaseException:
        _LOGGER.exception("cannot understand the parent's message")
    finally:
        # Threads that the plugin has left running must not keep the process alive.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with(life: int) -> None:
    """Make the kernel end this process by a signal when the other end of the pipe is closed."""
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def _serve(channel: Channel) -> None:
    (spec,) = channel.receive()
    answer, asked = _begun(spec)
    channel.send(answer)
    while asked is not None:
        message = Message.unpacked(channel.receive())
        # A message that is not understood ends the child: its next message would be misread.
        call = asked.understood(message)
        channel.send(_answered(call))


def _begun(packed: bytes) -> tuple[Packed, "_Asked | None"]:
    try:
        spec = ChildSpec.unpacked(packed)
        logs.configure(*spec.log)
        return Message({}).packed(), _Asked(spec)
    except BaseException as error:  # noqa: BLE001  a plugin may raise anything
        return _failure(error).packed(), None


def _answered(call: Callable[[], Message]) -> Packed:
    try:
        return call().packed()
    except BaseException as error:  # noqa: BLE001  a plugin may raise anything
        return _failure(error).packed()


def _failure(error: BaseException) -> Failure:
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, PluginError):
        answered = isinstance(error, AnsweredError)
        return Failure(
            error.message, error.extension_point, error.node, answered=answered, traceback=trace
        )
    return Failure(f"{type(error).__name__}: {error}", traceback=trace)


class _Asked:
    """The child's plugin and its CycleState of each attempt; runs the parent's calls."""

    def __init__(self, spec: ChildSpec) -> None:
        handle = Handle(
            WaitingPods(),
            ClusterPorts(activator=_NoActivator(spec.plugin.name)),
            configuration=spec.configuration,
            metrics=CollectorRegistry(),
        )
        # Any: the extension points were checked when the configuration was resolved.
        plugin: Any = spec.plugin.make(spec.args, handle)

        def at(point: str) -> list[Any]:
            return [plugin] if point in spec.points else []

        self._plugin = plugin
        self._profile = Profile.of("", at)
        self._nodes = core.NodeReceiver()
        self._states: OrderedDict[int, CycleState] = OrderedDict()

    def understood(self, asked: Message) -> Callable[[], Message]:
        """Parse a message of the parent, and return a function that makes the requested call.

        The function returns the reply, and raises what the plugin raises.

        Raises: ValueError: the message is not as the protocol requires.
        """
        match asked.head:
            case {"do": "start" | "stop" as method}:
                return partial(self._run, method)
            case {"do": "postFilter", "attempt": attempt, "nodes": nodes}:
                pod, *masks = asked.parts
                told = unpacked_rejections(Message(asked.head, masks), nodes)
                return partial(self._post_filter, attempt, core.Pod.unpack(pod), told)
            case {"do": str(point), "attempt": attempt} if point in self._methods:
                pod, nodes = asked.parts
                of = core.Pod.unpack(pod), self._nodes.unpack(nodes)
                return partial(self._methods[point], self, attempt, *of)
        raise MessageError(str(asked.head))

    def _run(self, method: str) -> Message:
        getattr(self._plugin, method, _nothing)()
        return Message({})

    def _pre_filter(self, attempt: int, pod: core.Pod, nodes: core.Nodes) -> Message:
        return packed_pre_filter(*self._pre_filtered(attempt, pod, nodes))

    def _filter(self, attempt: int, pod: core.Pod, nodes: core.Nodes) -> Message:
        state = self._state(attempt, pod, nodes)
        return packed_rejections(self._profile.run_filter_plugins(state, pod, nodes).rejections)

    def _post_filter(self, attempt: int, pod: core.Pod, told: list[Rejection]) -> Message:
        return packed_status(post_filtered(self._plugin, self._kept(attempt), pod, told))

    def _pre_score(self, attempt: int, pod: core.Pod, nodes: core.Nodes) -> Message:
        state = self._state(attempt, pod, nodes)
        state.skip_score_plugins = frozenset()
        self._profile.run_pre_score_plugin(self._plugin, state, pod, nodes)
        return packed_status(Status.skip() if state.skip_score_plugins else Status.success())

    def _score(self, attempt: int, pod: core.Pod, nodes: core.Nodes) -> Message:
        state = self._state(attempt, pod, nodes)
        scores = self._profile.run_score_plugin(self._plugin, state, pod, nodes)
        return packed_scores(memoryview(scores))  # type: ignore[arg-type]

    _methods: Mapping[str, Callable[["_Asked", int, core.Pod, core.Nodes], Message]] = {
        "preFilter": _pre_filter,
        "filter": _filter,
        "preScore": _pre_score,
        "score": _score,
    }

    def _pre_filtered(
        self, attempt: int, pod: core.Pod, nodes: core.Nodes
    ) -> tuple[PreFilterResult, Status]:
        self._states.pop(attempt, None)
        return pre_filtered(self._plugin, self._kept(attempt), pod, nodes)

    def _state(self, attempt: int, pod: core.Pod, nodes: core.Nodes) -> CycleState:
        """Return the CycleState of an attempt; run PreFilter again if the state was dropped."""
        if attempt not in self._states and self._profile.pre_filter:
            self._pre_filtered(attempt, pod, nodes)
        return self._kept(attempt)

    def _kept(self, attempt: int) -> CycleState:
        state = self._states.setdefault(attempt, CycleState())
        if len(self._states) > _MOST_STATES:
            self._states.popitem(last=False)
        return state


class _NoActivator:
    """Stands in for the object that activates pods: does nothing, and logs its first call."""

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._said = False

    def activate(self, pods: Iterable[core.Pod]) -> None:
        del pods
        if not self._said:
            self._said = True
            text = "%s runs in a process of its own, from which activate wakes no pod"
            _LOGGER.warning(text, self._plugin)


def _nothing() -> None:
    pass
