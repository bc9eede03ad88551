"""Filters that misbehave: they raise or hang."""

import time
from typing import NoReturn

from pydantic import BaseModel

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState


class Raises:
    name = "Raises"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> NoReturn:
        message = "this plugin is broken"
        raise RuntimeError(message)


class HangsArgs(BaseModel, extra="forbid"):
    seconds: float


class Hangs:
    name = "Hangs"
    Args = HangsArgs

    def __init__(self, args: HangsArgs) -> None:
        self._seconds = args.seconds

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        time.sleep(self._seconds)


class HangsLater(Hangs):
    """Hangs when filter runs again for a pod before it is bound, after score was called."""

    name = "HangsLater"
    needs_pods = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        if pod.uid in self._asked_about:
            super().filter(state, pod, node)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        self._asked_about.add(pod.uid)
        return 0

    def __init__(self, args: HangsArgs) -> None:
        super().__init__(args)
        self._asked_about: set[str] = set()


class CountsPods:
    name = "CountsPods"
    needs_pods = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        assert len(node.pods) == node.requested("pods")
