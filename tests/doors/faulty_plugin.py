"""A plugin that does to a pod what the label ``then`` says; the servers of the alerts run it."""

import time
from collections.abc import Sequence

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection


class Faulty:
    """Raises, hangs or takes two seconds; accepts every node otherwise."""

    name = "Faulty"

    def filter_nodes(
        self, _state: CycleState, pod: core.Pod, _nodes: core.Nodes
    ) -> Sequence[Rejection]:
        match pod.labels.get("then"):
            case "raise":
                message = "as its label says"
                raise RuntimeError(message)
            case "hang":
                self.hang_here()
            case "take long":
                time.sleep(2)
        return []

    def hang_here(self) -> None:
        time.sleep(3600)
