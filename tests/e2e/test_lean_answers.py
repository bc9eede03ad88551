"""kube-scheduler does the same with answers that leave rejected nodes out as with told ones.

Each test does the same with two kubextends that differ in extender.lastFilter alone.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from .controlplane import ControlPlane
from .json_server import answering
from .kubeapi import MERGE, POOL_LABEL, RDMA_LABEL, Api, NewPool, NodePool, Object, gated, node, pod
from .stack import (
    BACKOFF,
    HIGH_COMM,
    NO_RDMA,
    NewStack,
    Scheduler,
    Stack,
    default_profile,
    refused_kubextend,
    scheduler_configuration,
)
from .workbench import until
from .workload import NewWorkload, Workload

ANSWERS = {"told": False, "lean": True}
# The orders in which two extenders are called.
ORDERS = ("alone", "last", "first")
PODS, EQUAL, REJECTED = 200, 40, 60
# Two samples of one distribution over 40 nodes are further apart once in a million times: the
# quantile of chi-squared with 39 degrees of freedom.
MOST_APART = 98.0
OTHER_REASON = "the other extender rejects it"
GATE = "e2e.kubextend.dev/lean"


@pytest.fixture(scope="module")
def stacks(control_plane: ControlPlane, new_stack: NewStack) -> Iterator[Mapping[str, Stack]]:
    """Run a kubextend for told answers and one for lean ones, each with a kube-scheduler."""
    running = {}
    with ExitStack() as schedulers:
        for answers, lean in ANSWERS.items():
            names = [f"{answers}-{order}" for order in ORDERS]
            first, *more = map(default_profile, names)
            how = {"extender": {"lastFilter": lean}, "scheduler": False}
            stack = new_stack(f"answers-{answers}", profile=first, more_profiles=more, **how)
            config = scheduler_of(control_plane, stack, names[0])
            schedulers.enter_context(Scheduler(control_plane, names[0], config))
            running[answers] = stack
        yield running


def scheduler_of(plane: ControlPlane, stack: Stack, name: str, *before: Object) -> Object:
    """Return kube-scheduler's configuration for one profile, with extenders before kubextend."""
    written = scheduler_configuration(plane, stack.config)
    extenders = [*before, *written["extenders"]]
    return {**written, **BACKOFF, "profiles": [{"schedulerName": name}], "extenders": extenders}


def both(
    stacks: Mapping[str, Stack], pool: NodePool, new_workload: NewWorkload
) -> dict[str, Workload]:
    return {
        answers: new_workload(stack, pool, f"{answers}-alone") for answers, stack in stacks.items()
    }


def test_pods_spread_over_equal_nodes_as_with_told_answers(
    api: Api, stacks: Mapping[str, Stack], new_pool: NewPool, new_workload: NewWorkload
) -> None:
    """A pool of 100 nodes, of which 40 pass: so large that pods on them change no score."""
    names = [f"equal-{number:03}" for number in range(EQUAL + REJECTED)]
    passing = names[: 2 * EQUAL : 2]
    pool = new_pool("equal", 0)
    nodes = [node(name, {POOL_LABEL: pool.name}, cpu="100000", pods=5000) for name in names]
    for each in nodes:
        if each["metadata"]["name"] in passing:
            each["metadata"]["labels"][RDMA_LABEL] = "true"
        for of in ("allocatable", "capacity"):
            each["status"][of] = {**each["status"][of], "memory": "1Pi"}
    api.create_nodes(nodes)
    workloads = both(stacks, pool, new_workload)
    made = {a: w.create("tied", PODS, HIGH_COMM) for a, w in workloads.items()}
    told, lean = (Counter(w.until_placed(made[a], 300.0).values()) for a, w in workloads.items())
    assert told.keys() | lean.keys() <= {*passing}
    apart = sum((told[n] - lean[n]) ** 2 / (told[n] + lean[n] or 1) for n in passing)
    assert apart < MOST_APART, (told, lean)


def test_a_pod_that_fits_nowhere_has_the_same_condition_and_event(
    api: Api, stacks: Mapping[str, Stack], new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool("lean-nowhere", 5, cpu="4", born_with=(RDMA_LABEL, "true", [1]))
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


def test_the_same_pod_is_evicted_and_the_nominated_pod_takes_its_node(
    api: Api, stacks: Mapping[str, Stack], new_pool: NewPool, new_workload: NewWorkload
) -> None:
    """The nodes that kubextend rejects are free, one of the others has the cheaper pod."""
    left = {}
    for answers, stack in stacks.items():
        born = (RDMA_LABEL, "true", [1, 2])
        pool = new_pool(f"lean-evict-{answers}", 5, cpu="4", born_with=born)
        workload = new_workload(stack, pool, f"{answers}-alone")
        for name, number in (("e2e-low", 1), ("e2e-lowest", 2)):
            there = {"kubernetes.io/hostname": pool.names[number]}
            fill = workload.create(name, 1, cpu="4", priority_class=name, node_labels=there)
            workload.until_placed(fill)
        calls = stack.calls("preempt")
        (name,) = workload.create("urgent", 1, HIGH_COMM, cpu="4", priority_class="e2e-high")
        assert workload.until_placed([name]) == {name: pool.names[2]}
        assert stack.calls("preempt") > calls
        left[answers] = set(workload.uids().values())
    assert left["lean"] == left["told"] == {"e2e-low-00", "urgent-00"}


def test_a_pod_that_may_not_run_on_its_nominated_node_goes_to_another(
    api: Api, stacks: Mapping[str, Stack], new_pool: NewPool, new_workload: NewWorkload
) -> None:
    """kube-scheduler asks about the nominated node alone, and then about all nodes."""
    pool = new_pool("lean-nominated", 5, born_with=(RDMA_LABEL, "true", [3]))
    for answers, workload in both(stacks, pool, new_workload).items():
        alone = asked_about_one(stacks[answers])
        waits = pod("nominated", workload.scheduler, pool.name, HIGH_COMM)
        api.create_pods(workload.namespace, [gated(waits, GATE)])
        path = f"/api/v1/namespaces/{workload.namespace}/pods/nominated"
        nominated = {"status": {"nominatedNodeName": pool.names[0]}}
        api.call("PATCH", f"{path}/status", nominated, MERGE)
        api.call("PATCH", path, {"spec": {"schedulingGates": None}}, MERGE)
        assert workload.until_placed(["nominated"]) == {"nominated": pool.names[3]}
        assert asked_about_one(stacks[answers]) > alone


def asked_about_one(stack: Stack) -> float:
    """Return how often kube-scheduler asked filter about a single node."""
    return stack.counts().total("kubextend_verb_nodes_bucket", verb="filter", le="1.0")


@contextmanager
def other_extender(rejected: set[str]) -> Iterator[Object]:
    """Run an extender whose filter rejects these nodes; yield its entry for kube-scheduler."""

    def answer(request: Object) -> Object:
        names = set(request["NodeNames"])
        failed = dict.fromkeys(names & rejected, OTHER_REASON)
        return {"NodeNames": sorted(names - rejected), "FailedNodes": failed}

    with answering(answer) as port:
        url = f"http://127.0.0.1:{port}"
        yield {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True}


@pytest.mark.parametrize(
    ("answers", "order"), [("told", "first"), ("lean", "last"), ("lean", "first")]
)
def test_beside_another_extender_reasons_are_lost_only_where_check_refuses_the_declaration(
    answers: str,
    order: str,
    control_plane: ControlPlane,
    stacks: Mapping[str, Stack],
    new_pool: NewPool,
    new_workload: NewWorkload,
) -> None:
    """Where kubextend's entry comes first, it does so as kube-scheduler moves ignorable ones back.

    Of six nodes kubextend lets the pods onto two, and the other extender rejects one of these.
    """
    stack, name = stacks[answers], f"{answers}-{order}"
    pool = new_pool(name, 6, born_with=(RDMA_LABEL, "true", [1, 2]))
    with other_extender({pool.names[1]}) as other:
        other["ignorable"] = order == "first"
        config = scheduler_of(control_plane, stack, name, other)
        with Scheduler(control_plane, name, config):
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
    file = control_plane.bench.folder / f"{name}.json"
    file.write_text(json.dumps(config))
    said = refused_kubextend("check", stack.config, "--scheduler", file)
    called_after = f"kube-scheduler calls {other['urlPrefix']} after kubextend"
    assert (called_after in said) is wrong
    control_plane.api.delete_node(pool.names[2])
