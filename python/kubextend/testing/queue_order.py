"""Computes the order in which kubextend's queue releases pods with a QueueSort plugin."""

from collections.abc import Iterable, Mapping
from typing import Any

from kubextend import core
from kubextend.errors import PluginError
from kubextend.scheduling_queue import Order, SchedulingQueue, Settings
from kubextend.testing.objects import PodLike, pod_manifest_of, pod_of
from kubextend.testing.one_plugin import made

__all__ = ["queue_order"]

_GATE = "kubextend.dev/queue"


def queue_order(
    plugin: Any, pods: Iterable[PodLike], *, args: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the names of the pods in the order in which the plugin makes the queue release them.

    Args:
        plugin: the class of the plugin, or an instance.
        pods: the pods that wait, in order of arrival; their scheduling gates are ignored.
        args: the plugin's Args, as in ``pluginConfig``, if it is given as a class.

    Raises: PluginError: a method of the plugin raised an error, or ``less`` returned no bool.
    """
    waiting = [_gated(pod) for pod in pods]
    schedulers = {pod.scheduler_name for pod in waiting}
    settings = Settings(_GATE, schedulers, window=max(1, len(waiting)))
    queue = SchedulingQueue(settings, Order(made(plugin, args), _raise), lambda _: "", lambda: 0.0)
    for pod in waiting:
        queue.observe(pod)
    return [pod.name for pod in queue.due()]


def _gated(pod: PodLike) -> core.Pod:
    manifest = pod_manifest_of(pod)
    return pod_of({**manifest, "spec": {**manifest["spec"], "schedulingGates": [{"name": _GATE}]}})


def _raise(error: PluginError) -> None:
    raise error
