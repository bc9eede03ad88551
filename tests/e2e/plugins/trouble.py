"""Filters that do not do what they should."""

import time
from typing import NoReturn

from pydantic import BaseModel

from kubextend.core import NodeInfo, Pod
from kubextend.framework.cycle_state import CycleState


class Raises:
    name = "Raises"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> NoReturn:
        del state, pod, node
        message = "this plugin is broken"
        raise RuntimeError(message)


class Hangs:
    name = "Hangs"

    class Args(BaseModel, extra="forbid"):
        seconds: float

    def __init__(self, args: Args) -> None:
        self._seconds = args.seconds

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        del state, pod, node
        time.sleep(self._seconds)
