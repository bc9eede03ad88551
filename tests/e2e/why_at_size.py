"""Measures how long ``kubextend why`` takes in a cluster of 5,000 nodes.

``make why-at-size`` prints the seconds of each run of the command, from its start to its end, for a
pod that plugins of kubextend keep off every node. Beside them are the seconds of processor time of
the command and of kubextend for all runs together, since other work on the machine makes a run
longer. What the command prints is checked. The program fails if a run takes longer than 5 s.
"""

import json
import os
import sys
import time

from .controlplane import ControlPlane
from .kubeapi import NodePool, pod
from .program_plane import program_plane
from .stack import Mode, Stack, profile, run_kubextend
from .workbench import say, until

NODES = 5_000
RUNS = 5
MOST_S = 5.0
NAMESPACE = "why-at-size"
TOKEN = "reads-and-decides-nothing"
SENTENCE = f"kubextend rejected {NODES} nodes"


def main() -> None:
    with program_plane() as plane:
        took_s, worked_s = _seconds(plane)
    say(json.dumps({"nodes": NODES, "seconds": took_s, "processor_seconds": worked_s}))
    if max(took_s) > MOST_S:
        sys.exit(f"a run took longer than {MOST_S:.0f} s")


def _seconds(plane: ControlPlane) -> tuple[list[float], dict[str, float]]:
    """Return how long each run took, and the processor time of all runs by program."""
    token = plane.bench.folder / "token"
    token.write_text(f"{TOKEN}\n")
    plane.api.create_namespace(NAMESPACE)
    pool = NodePool(plane.api, "size", NODES)
    stack = Stack(
        plane, "size", Mode(), profile=profile("size", "HighCommPodFilter"), readers=token
    )
    until(lambda: stack.kept(pool.names[-1:], {"app": "a"}), "the nodes are known")
    plane.api.create_pods(NAMESPACE, [pod("p", "size", "size", {"high-comm": "true"})])
    until(lambda: stack.attempts("unschedulable"), "the pod is tried")
    until(lambda: SENTENCE in _answer(plane, stack), "the pod's decision is recorded")
    took_s = []
    before_s = _processor_s(stack)
    for _ in range(RUNS):
        began_s = time.monotonic()
        answer = _answer(plane, stack)
        took_s.append(round(time.monotonic() - began_s, 2))
        assert SENTENCE in answer, answer
    after_s = _processor_s(stack)
    stack.close()
    return took_s, {name: round(after_s[name] - before_s[name], 2) for name in after_s}


def _processor_s(stack: Stack) -> dict[str, float]:
    times = os.times()
    command_s = times.children_user + times.children_system
    return {"command": command_s, "kubextend": stack.processor_s()["kubextend"]}


def _answer(plane: ControlPlane, stack: Stack) -> str:
    kubeconfig = plane.kubeconfig("admin")
    where = ("-n", NAMESPACE, "--config", stack.config, "--kubeconfig", kubeconfig)
    return run_kubextend("why", "p", *where)


if __name__ == "__main__":
    main()
