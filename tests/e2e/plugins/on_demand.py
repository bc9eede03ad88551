"""A plugin that does at each extension point what the labels of the pod demand."""

from collections.abc import Callable
from typing import Any

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState, Status

WAIT_S = 250.0
SHORT_WAIT_S = 1.0


def _rejects() -> Status:
    return Status.unschedulable("the pod demands a rejection")


def _raises() -> Status:
    message = "the pod demands an error"
    raise RuntimeError(message)


def _fails() -> Status:
    return Status.error("the pod demands an Error")


def _answers_wrong() -> Any:
    return "no Status"


_DEEDS: dict[str, Callable[[], Any]] = {
    "rejects": _rejects,
    "raises": _raises,
    "fails": _fails,
    "answers-wrong": _answers_wrong,
    "waits": lambda: (Status.wait(), WAIT_S),
    "times-out": lambda: (Status.wait(), SHORT_WAIT_S),
}


class OnDemand:
    """Does what the label ``at-POINT`` of the pod says; without the label it lets the pod pass."""

    name = "OnDemand"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> Any:
        return self._done(pod, "pre-filter")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
        return self._done(pod, "filter")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._done(pod, "reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None: ...

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._done(pod, "permit")

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._done(pod, "pre-bind")

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._done(pod, "bind") or Status.skip()

    def _done(self, pod: Pod, point: str) -> Any:
        deed = pod.labels.get(f"at-{point}")
        return None if deed is None else _DEEDS[deed]()
