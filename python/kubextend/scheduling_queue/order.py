"""Orders pods by a QueueSort plugin, and by priority and time if the plugin fails."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import QueuedPodInfo, QueueSortPlugin
from kubextend.framework.wrong_answer import wrong_answer

if TYPE_CHECKING:
    from kubextend.scheduling_queue.item import Ticket

__all__ = ["Failed", "Order"]

Failed = Callable[[PluginError], object]
"""A function of the error that names the failed plugin, the extension point, and the pods."""


class Order:
    """Decides which of two pods the queue releases first; never raises.

    If the plugin raises, kube-scheduler's own order decides: by priority, then by time. If the
    plugin ranks two pods as equal, the queue releases first the pod that it saw first.

    Args:
        plugin: the one QueueSort plugin.
        failed: called when the plugin raises, or returns anything other than a bool.
    """

    def __init__(self, plugin: QueueSortPlugin, failed: Failed) -> None:
        self._plugin = plugin
        self._failed = failed

    def before(self, a: "Ticket", b: "Ticket") -> bool:
        """Return whether the queue releases ``a`` before ``b``."""
        try:
            if self._less(a.info, b.info):
                return True
            if self._less(b.info, a.info):
                return False
        except BaseException as error:  # noqa: BLE001 - SystemExit or a panic: no pod may be lost
            pods = f"for {_name(a.info.pod)} and {_name(b.info.pod)}: "
            self._failed(PluginError.of(self._plugin.name, "queueSort", error, pods))
            return _scheduler_order(a) < _scheduler_order(b)
        return a.member.sequence < b.member.sequence

    def _less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        less: object = self._plugin.less(a, b)
        if not isinstance(less, bool):
            raise wrong_answer(less, "a bool")
        return less


def _name(pod: core.Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _scheduler_order(ticket: "Ticket") -> tuple[int, float, int]:
    """A sort key that orders pods as kube-scheduler does: by priority, then by time."""
    return -(ticket.info.pod.priority or 0), ticket.info.timestamp, ticket.member.sequence
