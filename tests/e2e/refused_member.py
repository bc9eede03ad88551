"""Measures what a member of a pod group costs whose bind is refused each time.

The program prints how often kube-scheduler asks to bind the member in 25 s, and how much of a core
kubextend and kube-scheduler take for that, beyond what they take while there is no such member.
"""

import json
import time

from . import pod_groups
from .controlplane import ControlPlane
from .kubeapi import NodePool
from .pod_groups import PodGroups
from .program_plane import program_plane
from .stack import PLUGIN_FOLDER, Mode, Stack, profile
from .workbench import say, until
from .workload import Workload

SECONDS = 25.0


def main() -> None:
    with program_plane(pod_groups.GATES, pod_groups.APIS) as plane:
        say(json.dumps(_figures(plane)))


def _figures(plane: ControlPlane) -> dict[str, float]:
    stack = Stack(
        plane,
        "refused",
        Mode(binds=True),
        profile=profile("refused", "Refuses"),
        out_of_tree=["refuses:Refuses"],
        python_path=[PLUGIN_FOLDER],
    )
    pool = NodePool(plane.api, "refused", 2)
    groups = PodGroups(plane.api, Workload(plane.api, "refused", stack.scheduler_name, pool), pool)
    idle = _percent_of_a_core(stack)
    groups.gang("refused", 1)
    until(lambda: stack.calls("filter") or stack.calls("bind"), "the member is tried")
    busy = _percent_of_a_core(stack)
    binds = stack.calls("bind")
    stack.close()
    return {
        "binds": binds,
        **{f"percent_of_a_core_{name}": round(busy[name] - idle[name], 2) for name in busy},
        **{f"percent_of_a_core_{name}_idle": idle[name] for name in idle},
    }


def _percent_of_a_core(stack: Stack) -> dict[str, float]:
    """Return how much of a core each program of a stack takes in the next 25 s."""
    before = stack.processor_s()
    time.sleep(SECONDS)
    after = stack.processor_s()
    return {name: round(100 * (after[name] - before[name]) / SECONDS, 2) for name in after}


if __name__ == "__main__":
    main()
