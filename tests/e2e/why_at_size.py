"""Measures how long ``kubextend why`` takes in a cluster of 5,000 nodes.

python -m tests.e2e.why_at_size prints the seconds of each run of the command, from its start to its
end, for a pod that plugins of kubextend keep off every node. What the command prints is checked.
"""

import json
import time

from .controlplane import ControlPlane
from .kubeapi import NodePool, pod
from .program_plane import program_plane
from .stack import Mode, Stack, profile, run_kubextend
from .workbench import say, until

NODES = 5_000
RUNS = 5
NAMESPACE = "why-at-size"
TOKEN = "reads-and-decides-nothing"
SENTENCE = f"kubextend rejected {NODES} nodes"


def main() -> None:
    with program_plane() as plane:
        say(json.dumps({"nodes": NODES, "seconds": _seconds(plane)}))


def _seconds(plane: ControlPlane) -> list[float]:
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
    for _ in range(RUNS):
        began_s = time.monotonic()
        answer = _answer(plane, stack)
        took_s.append(round(time.monotonic() - began_s, 2))
        assert SENTENCE in answer, answer
    stack.close()
    return took_s


def _answer(plane: ControlPlane, stack: Stack) -> str:
    kubeconfig = plane.kubeconfig("admin")
    where = ("-n", NAMESPACE, "--config", stack.config, "--kubeconfig", kubeconfig)
    return run_kubextend("why", "p", *where)


if __name__ == "__main__":
    main()
