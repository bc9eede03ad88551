"""kube-scheduler does the same with answers that leave rejected nodes out as with told ones.

Each test does the same with two kubextends that differ in extender.lastFilter alone.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from .controlplane import ControlPlane
from .kubeapi import MERGE, POOL_LABEL, RDMA_LABEL, Api, NodePool, Object, node, pod
from .stack import (
    BACKOFF,
    HIGH_COMM,
    LABEL_MATCH,
    NO_RDMA,
    PLUGINS,
    Mode,
    Scheduler,
    Stack,
    profile,
    refused_kubextend,
    run_kubextend,
)
from .workbench import until
from .workload import NewWorkload, Workload

Extenders = Callable[[list[Object]], list[Object]]
ANSWERS = {"told": False, "lean": True}
# The orders in which two extenders are called.
ORDERS = ("alone", "last", "first")
PODS, EQUAL, REJECTED = 1000, 40, 60
# Two samples of one distribution over 40 nodes are further apart once in a million times: the
# quantile of chi-squared with 39 degrees of freedom.
MOST_APART = 98.0
OTHER_REASON = "the other extender rejects it"
GATE = "e2e.kubextend.dev/lean"


@pytest.fixture(scope="module")
def stacks(control_plane: ControlPlane) -> Iterator[Mapping[str, Stack]]:
    """Run a kubextend for told answers and one for lean ones, without kube-schedulers."""
    running = {}
    for answers, lean in ANSWERS.items():
        profiles = [
            profile(f"{answers}-{order}", *PLUGINS, LabelMatch=LABEL_MATCH) for order in ORDERS
        ]
        running[answers] = Stack(
            control_plane,
            f"answers-{answers}",
            Mode(names=True),
            profile=profiles[0],
            more_profiles=profiles[1:],
            extender={"lastFilter": lean},
            scheduler=False,
        )
    yield running
    for stack in running.values():
        stack.close()


@pytest.fixture(scope="module", autouse=True)
def schedulers(control_plane: ControlPlane, stacks: Mapping[str, Stack]) -> Iterator[None]:
    """Run a kube-scheduler for each kubextend, which is its only extender."""
    started = [
        started_scheduler(control_plane, stack, f"{answers}-alone")[0]
        for answers, stack in stacks.items()
    ]
    yield
    for scheduler in started:
        scheduler.close()


def started_scheduler(
    plane: ControlPlane,
    stack: Stack,
    name: str,
    extenders: Extenders = lambda ours: ours,
) -> tuple[Scheduler, Path]:
    """Start a kube-scheduler for one profile; return it with the file of its configuration."""
    kubeconfig = plane.kubeconfig("system:kube-scheduler")
    written = run_kubextend(
        "scheduler-config",
        "--config",
        stack.config,
        "--kubeconfig",
        kubeconfig,
        "--no-leader-elect",
    )
    configuration = yaml.safe_load(written)
    configuration["profiles"] = [{"schedulerName": name}]
    configuration["extenders"] = extenders(configuration["extenders"])
    file = plane.bench.folder / f"{name}.json"
    file.write_text(json.dumps({**configuration, **BACKOFF}))
    return Scheduler(plane, name, file), file


def both(
    stacks: Mapping[str, Stack], pool: NodePool, new_workload: NewWorkload
) -> dict[str, Workload]:
    return {
        answers: new_workload(stack, pool, f"{answers}-alone") for answers, stack in stacks.items()
    }


def test_rejected_nodes_are_left_out_only_where_it_is_declared_and_a_node_passes(
    api: Api, stacks: Mapping[str, Stack]
) -> None:
    pool = NodePool(api, "lean-wire", 3, born_with=(RDMA_LABEL, "true", [1]))
    for stack in stacks.values():
        until(lambda stack=stack: stack.kept(pool.names) == pool.names, "the nodes are seen")
    metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": HIGH_COMM}
    said = {}
    for names in (pool.names, [pool.names[0], pool.names[2]]):
        for answers, stack in stacks.items():
            asking = {"metadata": metadata, "spec": {"schedulerName": f"{answers}-alone"}}
            request = {"Pod": asking, "Nodes": None, "NodeNames": names}
            said[len(names), answers] = stack.post("filter", request)
    rejected = dict.fromkeys([pool.names[0], pool.names[2]], NO_RDMA)
    assert said[3, "told"]["FailedAndUnresolvableNodes"] == rejected
    left_out = {"FailedNodes": None, "FailedAndUnresolvableNodes": None}
    assert said[3, "lean"] == said[3, "told"] | left_out
    assert said[2, "lean"] == said[2, "told"]
    assert said[2, "lean"]["FailedAndUnresolvableNodes"] == rejected
    pool.delete()


def test_pods_spread_over_equal_nodes_as_with_told_answers(
    api: Api, stacks: Mapping[str, Stack], new_workload: NewWorkload
) -> None:
    """A pool of 100 nodes, of which 40 pass: so large that pods on them change no score."""
    names = [f"equal-{number:03}" for number in range(EQUAL + REJECTED)]
    manifests = [node(name, {POOL_LABEL: "equal"}, cpu="100000", pods=5000) for name in names]
    for each in manifests:
        each["status"]["allocatable"] |= {"memory": "1Pi"}
        each["status"]["capacity"] |= {"memory": "1Pi"}
    passing = names[: 2 * EQUAL : 2]
    for each in manifests:
        if each["metadata"]["name"] in passing:
            each["metadata"]["labels"][RDMA_LABEL] = "true"
    api.create_nodes(manifests)
    pool = NodePool(api, "equal", 0)
    workloads = both(stacks, pool, new_workload)
    made = {a: w.create("tied", PODS, HIGH_COMM) for a, w in workloads.items()}
    counts = {
        answers: Counter(workload.until_placed(made[answers], 300.0).values())
        for answers, workload in workloads.items()
    }
    assert set(counts["told"]) <= set(passing)
    assert set(counts["lean"]) <= set(passing)
    apart = sum(
        (counts["told"][name] - counts["lean"][name]) ** 2
        / (counts["told"][name] + counts["lean"][name] or 1)
        for name in passing
    )
    assert apart < MOST_APART, counts
    pool.delete()


def test_a_pod_that_fits_nowhere_has_the_same_condition_and_event(
    api: Api, stacks: Mapping[str, Stack], new_workload: NewWorkload
) -> None:
    pool = NodePool(api, "lean-nowhere", 5, cpu="4", born_with=(RDMA_LABEL, "true", [1]))
    workloads = both(stacks, pool, new_workload)
    # The node that kubextend lets the pod onto is full, and the pod may evict nobody.
    full = {"kubernetes.io/hostname": pool.names[1]}
    filler = workloads["told"].create("filler", 1, cpu="4", node_labels=full)
    workloads["told"].until_placed(filler)
    said = {}
    for answers, workload in workloads.items():
        (name,) = workload.create("nowhere", 1, HIGH_COMM, cpu="2")
        message = workload.until_pending(name)
        until(lambda w=workload, n=name: NO_RDMA in w.notes(n), "the event is there")
        said[answers] = (message, workload.notes(name).splitlines()[0])
    assert said["lean"] == said["told"]
    assert f"4 {NO_RDMA}" in said["lean"][0]
    assert "1 Insufficient cpu" in said["lean"][0]
    pool.delete()


def test_the_same_pod_is_evicted_and_the_nominated_pod_takes_its_node(
    api: Api, stacks: Mapping[str, Stack], new_workload: NewWorkload
) -> None:
    """The nodes that kubextend rejects are free, one of the others has the cheaper pod."""
    left = {}
    for answers, stack in stacks.items():
        pool = NodePool(
            api, f"lean-evict-{answers}", 5, cpu="4", born_with=(RDMA_LABEL, "true", [1, 2])
        )
        workload = new_workload(stack, pool, f"{answers}-alone")
        for priority_class, number in (("e2e-low", 1), ("e2e-lowest", 2)):
            there = {"kubernetes.io/hostname": pool.names[number]}
            workload.until_placed(
                workload.create(
                    priority_class, 1, cpu="4", priority_class=priority_class, node_labels=there
                )
            )
        calls = stack.calls("preempt")
        (name,) = workload.create("urgent", 1, HIGH_COMM, cpu="4", priority_class="e2e-high")
        assert workload.until_placed([name]) == {name: pool.names[2]}
        assert stack.calls("preempt") > calls
        left[answers] = set(workload.uids().values())
        pool.delete()
    assert left["lean"] == left["told"] == {"e2e-low-00", "urgent-00"}


def test_a_pod_that_may_not_run_on_its_nominated_node_goes_to_another(
    api: Api, stacks: Mapping[str, Stack], new_workload: NewWorkload
) -> None:
    """kube-scheduler asks about the nominated node alone, and then about all nodes."""
    pool = NodePool(api, "lean-nominated", 5, born_with=(RDMA_LABEL, "true", [3]))
    for answers, workload in both(stacks, pool, new_workload).items():
        alone = asked_about_one(stacks[answers])
        waits = pod("nominated", workload.scheduler, pool.name, HIGH_COMM)
        waits["spec"]["schedulingGates"] = [{"name": GATE}]
        api.create_pods(workload.namespace, [waits])
        path = f"/api/v1/namespaces/{workload.namespace}/pods/nominated"
        nominated = {"status": {"nominatedNodeName": pool.names[0]}}
        api.call("PATCH", f"{path}/status", nominated, MERGE)
        api.call("PATCH", path, {"spec": {"schedulingGates": None}}, MERGE)
        assert workload.until_placed(["nominated"]) == {"nominated": pool.names[3]}
        assert asked_about_one(stacks[answers]) > alone
    pool.delete()


def asked_about_one(stack: Stack) -> float:
    """Return how often kube-scheduler asked filter about a single node."""
    return stack.counts().total("kubextend_verb_nodes_bucket", verb="filter", le="1.0")


@contextmanager
def other_extender(plane: ControlPlane, rejected: set[str]) -> Iterator[Object]:
    """Run an extender whose filter rejects these nodes; yield its entry for kube-scheduler."""

    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            names = set(request["NodeNames"])
            failed = dict.fromkeys(names & rejected, OTHER_REASON)
            answer = {"NodeNames": sorted(names - rejected), "FailedNodes": failed}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing: a failing test shows what kube-scheduler logged."""

    port = plane.bench.free_port()
    with ThreadingHTTPServer(("127.0.0.1", port), Other) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{port}"
        yield {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True}
        server.shutdown()


@pytest.mark.parametrize(
    ("answers", "order"),
    [("told", "last"), ("lean", "last"), ("told", "first"), ("lean", "first")],
)
def test_beside_another_extender_reasons_are_lost_only_where_check_refuses_the_declaration(
    answers: str,
    order: str,
    control_plane: ControlPlane,
    stacks: Mapping[str, Stack],
    new_workload: NewWorkload,
) -> None:
    """Where kubextend's entry comes first, it does so as kube-scheduler moves ignorable ones back.

    Of six nodes kubextend lets the pods onto two, and the other extender rejects one of these.
    """
    stack, name = stacks[answers], f"{answers}-{order}"
    pool = NodePool(control_plane.api, name, 6, born_with=(RDMA_LABEL, "true", [1, 2]))
    with other_extender(control_plane, {pool.names[1]}) as other:
        other["ignorable"] = order == "first"
        scheduler, file = started_scheduler(control_plane, stack, name, lambda ours: [other, *ours])
        workload = new_workload(stack, pool, name)
        fit = workload.create("fits", 20, HIGH_COMM)
        assert set(workload.until_placed(fit).values()) == {pool.names[2]}
        there = {RDMA_LABEL: "true", "kubernetes.io/hostname": pool.names[1]}
        (lone,) = workload.create("lone", 1, HIGH_COMM, node_labels=there)
        assert f"1 {OTHER_REASON}" in workload.until_pending(lone)
        control_plane.api.label_node(pool.names[2], {POOL_LABEL: "elsewhere"})
        (nowhere,) = workload.create("nowhere", 1, HIGH_COMM)
        message = workload.until_pending(nowhere)
        assert f"1 {OTHER_REASON}" in message
        wrong = (answers, order) == ("lean", "first")
        assert (f"4 {NO_RDMA}" in message) != wrong
        if wrong:
            said = refused_kubextend("check", stack.config, "--scheduler", file)
            assert f"kube-scheduler calls {other['urlPrefix']} after kubextend" in said
        elif answers == "lean":
            said = refused_kubextend("check", stack.config, "--scheduler", file)
            assert "lastFilter" not in said
        scheduler.close()
    control_plane.api.delete_node(pool.names[2])
    pool.delete()
