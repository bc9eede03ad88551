"""The object that takes a plugin's place in a profile, and calls the plugin in a child process."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Self, TypeVar

from pydantic import BaseModel

from kubextend import core
from kubextend.config import ExtenderConfiguration
from kubextend.errors import KubextendError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import PreFilterResult, Rejection, Scores
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.framework.status import Status
from kubextend.profile.isolation.child_spec import ChildSpec
from kubextend.profile.isolation.process import Child, ChildError
from kubextend.profile.isolation.protocol import (
    Failure,
    Message,
    packed_rejections,
    unpacked_pre_filter,
    unpacked_rejections,
    unpacked_scores,
    unpacked_status,
)
from kubextend.profile.isolation.supervisor import Supervisor
from kubextend.profile.plugin_errors import AnsweredError, about

__all__ = ["IsolatedPlugin"]

_T = TypeVar("_T")


class IsolatedPlugin:
    """A plugin whose methods, from PreFilter to NormalizeScore, run in a child process.

    What the plugin writes into its CycleState stays in the child; no other plugin sees it.

    Args:
        plugin: the registered plugin.
        supervisor: keeps the child process of the plugin running.

    Attributes:
        name: the name of the plugin.
        start: calls the plugin's ``start`` in the child; None if the plugin has no ``start``.
    """

    def __init__(self, plugin: RegisteredPlugin, supervisor: Supervisor) -> None:
        self.name = plugin.name
        self._supervisor = supervisor
        self._attempts = count(1)
        self._key = f"{plugin.name} in a process of its own"
        starts = hasattr(plugin.plugin_class, "start")
        self.start: Callable[[], None] | None = supervisor.begin_work if starts else None

    @classmethod
    def of(
        cls,
        plugin: RegisteredPlugin,
        args: BaseModel | None,
        points: Iterable[str],
        configuration: ExtenderConfiguration | None = None,
    ) -> Self:
        """Start a child process, and make the plugin in the child.

        Args:
            plugin: the registered plugin.
            args: the checked arguments of the plugin.
            points: the plugin's extension points in the profile, as spelled in a configuration.
            configuration: the configuration for the plugin's Handle.

        Raises: KubextendError: the plugin cannot be made in the child.
        """
        spec = ChildSpec.of(plugin, args, points, configuration)
        try:
            return cls(plugin, Supervisor(plugin.name, lambda: Child(spec)))
        except ChildError as error:
            message = f'plugin "{plugin.name}" cannot be made in a process of its own: {error}'
            raise KubextendError(message) from error

    def stop(self) -> None:
        """Stop the plugin, and end its child process."""
        self._supervisor.stop()

    def pre_filter(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> tuple[PreFilterResult, Status]:
        """Call the plugin's PreFilter in the child; return its set of nodes and its Status."""
        return self._asked("preFilter", state, pod, nodes, unpacked_pre_filter)

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        """Call the plugin's Filter in the child, for all nodes; return the rejections."""
        return self._asked(
            "filter", state, pod, nodes, partial(unpacked_rejections, nodes=len(nodes))
        )

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        """Call the plugin's PostFilter in the child, and return its Status."""
        told = packed_rejections(rejections)
        nodes = len(rejections[0].nodes) if rejections else 0
        head = {"do": "postFilter", "attempt": self._attempt(state), "nodes": nodes}
        message = Message(head | told.head, [pod.pack(), *told.parts])
        return self._answered(lambda child: child.ask(message), unpacked_status)

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status:
        """Call the plugin's PreScore in the child, and return its Status."""
        return self._asked("preScore", state, pod, nodes, unpacked_status)

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scores:
        """Call the plugin's Score and NormalizeScore in the child; return the scores."""
        return self._asked("score", state, pod, nodes, partial(unpacked_scores, nodes=len(nodes)))

    def _asked(
        self,
        point: str,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        read: Callable[[Message], _T],
    ) -> _T:
        head = {"do": point, "attempt": self._attempt(state)}
        packed_pod = pod.pack()

        def ask(child: Child) -> Message:
            return child.ask(Message(head, [packed_pod, child.nodes.pack(nodes)]))

        return self._answered(ask, read)

    def _answered(self, ask: Callable[[Child], Message], read: Callable[[Message], _T]) -> _T:
        """Ask the child, and return its reply as ``read`` unpacks it.

        Raises: PluginError: the child reports that the plugin failed, or the child has ended.
        """

        def answer(child: Child) -> Failure | _T:
            message = ask(child)
            return Failure.of(message) or read(message)

        try:
            answered = self._supervisor.ask(answer)
        except ChildError as error:
            # The caller knows the extension point.
            raise PluginError(self.name, "", str(error)) from error
        if not isinstance(answered, Failure):
            return answered
        kind = AnsweredError if answered.answered else PluginError
        failed = kind(self.name, answered.point, answered.text)
        raise about(failed, None, answered.node) from answered.cause

    def _attempt(self, state: CycleState) -> int:
        """Return the number by which parent and child identify the attempt of this CycleState."""
        try:
            number = state.read(self._key)
        except KeyError:
            number = next(self._attempts)
            state.write(self._key, number)
        return number  # type: ignore[return-value]
