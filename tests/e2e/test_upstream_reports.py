"""Takes the steps of docs/upstream with the extender and the configuration of each page.

A test that fails says that kube-scheduler does not behave any more as the page says.
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from .controlplane import ROOT, ControlPlane
from .kubeapi import POOL_LABEL, NewPool, NodePool, Object, gated, node, pod
from .pod_groups import PodGroups
from .stack import Scheduler
from .versions import KUBE, needs
from .workbench import Program, until
from .workload import Workload

PAGES = ROOT / "docs" / "upstream"
SCHEDULER = "default-scheduler"
# With kube-scheduler's backoff, a pod is tried ten times a minute at most.
MANY = 40
LONE = 3
TIMEOUT_S = 60.0
REJECTED, GATED = 5, 4
EQUAL = 40


@dataclass
class Report:
    """A page whose extender and kube-scheduler run."""

    scheduler: Scheduler
    _extender: Program

    def calls(self) -> int:
        """Return how often the extender was called: it prints the number of each call."""
        return len(re.findall(r"^\d+ /", self._extender.log.read_text(), re.MULTILINE))


@contextmanager
def running(plane: ControlPlane, name: str) -> Iterator[Report]:
    """Run what a page says."""
    blocks = blocks_of(name)
    port = plane.bench.free_port()
    extender = plane.bench.folder / f"{name}-{port}.py"
    extender.write_text(blocks["python"].replace("8888", str(port)))
    program = plane.bench.start(extender.name, sys.executable, extender)
    scheduler = started(plane, extender, blocks["yaml"].replace("8888", str(port)))
    yield Report(scheduler, program)
    scheduler.close()
    plane.bench.end(program)


def blocks_of(name: str) -> dict[str, str]:
    """Return the blocks of a page by their kind: the extender, and kube-scheduler's file."""
    page = (PAGES / f"{name}.md").read_text()
    found = re.findall(r" ```(\w+)\n(.*?) ```", page, re.DOTALL)
    return {kind: dedent(text) for kind, text in found}


def started(plane: ControlPlane, beside: Path, config: str) -> Scheduler:
    """Start kube-scheduler with the configuration of a page, in a file beside another."""
    kubeconfig = str(plane.kubeconfig("system:kube-scheduler"))
    file = beside.with_suffix(".yaml")
    file.write_text(config.replace("/etc/kubernetes/scheduler.conf", kubeconfig))
    return Scheduler(plane, beside.name, file)


def test_equal_pods_are_stacked_on_a_few_of_40_equal_nodes_since_1_35(
    control_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    name, api = "stacked-pods", control_plane.api
    nodes = [node(f"{name}-{number}", {POOL_LABEL: name}, "512", 250) for number in range(EQUAL)]
    for each in nodes:
        each["status"]["capacity"]["memory"] = each["status"]["allocatable"]["memory"] = "2Ti"
    api.create_nodes(nodes)
    workload = workload_of(control_plane, new_pool(name, 0), ends)
    pods = [pod(f"equal-{number}", SCHEDULER, name) for number in range(5 * EQUAL)]
    for equal in pods:
        del equal["spec"]["containers"][0]["resources"]
    made = api.create_pods(workload.namespace, pods)
    scheduler = started(control_plane, control_plane.bench.folder / name, blocks_of(name)["yaml"])
    placed = workload.until_placed([each["metadata"]["name"] for each in made])
    used = set(placed.values())
    assert len(used) <= EQUAL // 4 if KUBE >= "1.35" else len(used) >= EQUAL * 3 // 4
    scheduler.close()


def workload_of(plane: ControlPlane, pool: NodePool, ends: ExitStack) -> Workload:
    workload = Workload(plane.api, pool.name, SCHEDULER, pool)
    ends.callback(workload.close)
    return workload


@needs("PodGroup")
def test_a_member_is_tried_again_without_backoff_after_a_refused_bind(
    group_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    pool = new_pool("upstream-bind", 1, api=group_plane.api)
    groups = PodGroups(group_plane.api, workload_of(group_plane, pool, ends), pool)
    with running(group_plane, "refused-bind") as report:
        groups.declare("basic", 0)
        groups.join("basic", 1)
        until(lambda: report.calls() > MANY, "the member is tried", TIMEOUT_S)


def test_a_lone_pod_waits_for_its_backoff_after_a_refused_bind(
    control_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    pool = new_pool("upstream-lone", 1)
    workload = workload_of(control_plane, pool, ends)
    with running(control_plane, "refused-bind") as report:
        began_s = time.monotonic()
        (name,) = workload.create("refused", 1)
        until(lambda: report.calls() > LONE, "the pod is tried again", TIMEOUT_S)
        # Between the binds are backoffs of 1, 2 and 4 s, however busy the machine is.
        assert time.monotonic() - began_s >= sum(2**tries for tries in range(LONE))
        assert workload.placed() == {}, name


def gated_pod(number: int, pool: NodePool) -> Object:
    return gated(pod(f"gated-{number}", SCHEDULER, pool.name), "e2e.kubextend.dev/gate")


@needs("PodGroup")
def test_each_new_pod_wakes_all_rejected_pods_if_pod_groups_are_on(
    group_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    pool = new_pool("upstream-wake", 1, api=group_plane.api)
    workload = workload_of(group_plane, pool, ends)
    with running(group_plane, "new-pods-wake-rejected-pods") as report:
        for name in workload.create("rejected", REJECTED):
            workload.until_pending(name)
        calls = report.calls()
        for number in range(GATED):
            calls += REJECTED
            group_plane.api.create_pods(workload.namespace, [gated_pod(number, pool)])
            until(lambda: report.calls() >= calls, "each rejected pod is tried", TIMEOUT_S)  # noqa: B023


def test_new_pods_wake_no_rejected_pods_if_pod_groups_are_off(
    control_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    pool = new_pool("upstream-rest", 1)
    workload = workload_of(control_plane, pool, ends)
    with running(control_plane, "new-pods-wake-rejected-pods") as report:
        for name in workload.create("rejected", REJECTED):
            workload.until_pending(name)
        waiting = [gated_pod(number, pool) for number in range(GATED)]
        control_plane.api.create_pods(workload.namespace, waiting)
        # kube-scheduler hears of this pod after the others, and tries each new pod twice at most.
        (last,) = workload.create("last", 1)
        workload.until_pending(last)
        assert report.calls() <= 2 * (REJECTED + 1)


@needs("PodGroup")
def test_the_victims_of_a_group_are_refused_in_an_answer_to_preempt(
    group_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    pool = new_pool("upstream-victims", 2, cpu="4", api=group_plane.api)
    groups = PodGroups(group_plane.api, workload_of(group_plane, pool, ends), pool)
    with running(group_plane, "refused-victims") as report:
        whole = {"cpu": "2", "priority_class": "e2e-low"}
        members = groups.gang("whole", 4, disruption_mode="all", **whole)
        groups.workload.until_placed(members)
        (urgent,) = groups.workload.create("urgent", 1, cpu="1", priority_class="e2e-high")
        until(lambda: "claims to preempt pod" in report.scheduler.log(), "refused", TIMEOUT_S)
        groups.workload.until_pending(urgent)
        assert set(groups.workload.uids().values()) == {*members, urgent}
