"""Calls PreEnqueue plugins to find out whether the queue may release a pod."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import PreEnqueuePlugin
from kubextend.framework.status import Status
from kubextend.framework.wrong_answer import check_status, wrong_answer
from kubextend.scheduling_queue.order import Failed

__all__ = ["PreEnqueue"]


class PreEnqueue:
    """Calls the PreEnqueue plugins of a pod's profile to decide on a release; never raises.

    Args:
        plugins: the PreEnqueue plugins by scheduler name, in order.
        ignored: by scheduler name, the plugins whose failurePolicy is Ignore: such a plugin lets
            the pod pass when it fails. Any other plugin that fails holds the pod back, and is
            called again later.
        failed: called when a plugin raises, or returns a wrong value.
    """

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        ignored: Mapping[str, AbstractSet[str]],
        failed: Failed,
    ) -> None:
        self._plugins = plugins
        self._ignored = ignored
        self._failed = failed

    def why_held(self, pod: core.Pod) -> str:
        """Return which PreEnqueue plugin holds the pod back, and why; empty: no plugin does."""
        ignored = self._ignored.get(pod.scheduler_name, frozenset())
        for plugin in self._plugins.get(pod.scheduler_name, ()):
            try:
                why = _rejection(plugin.pre_enqueue(pod))
            except BaseException as error:  # noqa: BLE001 - SystemExit too
                name = f"for {pod.namespace}/{pod.name}: "
                self._failed(PluginError.of(plugin.name, "preEnqueue", error, name))
                why = "" if plugin.name in ignored else "it failed"
            if why:
                return f"held back by {plugin.name}: {why}"
        return ""


def _rejection(answer: object) -> str:
    """Return why a plugin's answer to PreEnqueue rejects the pod; empty: the pod may be released.

    Raises: TypeError: the answer is neither a success nor a rejection.
    """
    if answer is None:
        return ""
    if not isinstance(answer, Status):
        raise wrong_answer(answer, "a Status or None")
    check_status(answer)
    if answer.is_success:
        return ""
    if not answer.is_rejected:
        message = answer.reason or f"answered {answer.code.name}"
        raise TypeError(message)
    return answer.reason or answer.code.name
