"""Makes the pod and nodes of a request, and plugins whose answers a test gives."""

import json
from collections.abc import Sequence
from typing import Any

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status


def request(*names: str) -> tuple[core.Pod, core.Nodes]:
    items = [{"metadata": {"name": name, "labels": {"name": name}}} for name in names]
    pod = {"metadata": {"name": "p", "namespace": "ml", "uid": "u-p"}}
    args = core.read_args(json.dumps({"Pod": pod, "Nodes": {"items": items}}).encode())
    assert args.pod is not None
    assert args.nodes is not None
    return args.pod, args.nodes


class Said:
    """A plugin that records its calls in ``diary``, and returns or raises each method's answer."""

    def __init__(self, name: str, diary: list[str], **answers: Any) -> None:
        self.name = name
        self._diary = diary
        for method, answer in answers.items():
            setattr(self, method, self._method(method, answer))

    def _method(self, method: str, answer: Any) -> Any:
        def call(*_arguments: Any) -> Any:
            self._diary.append(f"{self.name}.{method}")
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call


def rejecting(nodes: core.Nodes, names: Sequence[str], status: Status) -> list[Rejection]:
    return [Rejection(core.Mask([name in names for name in nodes.names]), status)]


def state() -> CycleState:
    return CycleState()
