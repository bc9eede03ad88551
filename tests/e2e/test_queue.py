"""The order in which pods are bound is that of the queueSort plugin, whatever happens meanwhile."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, STRATEGIC, Api, NewPool, NodePool, Object, condition, node, pod
from .manifests import DEPLOY, QUEUE_SORT
from .queue_policies import GATE, SCHEDULER, gates, install_queue
from .queue_stack import TAKE_OVER_S, QueueStack, forget_lease, queue_scheduler, sorted_by
from .queued_pods import (
    EXPECTED_SECONDS,
    QueuedPods,
    by_qos,
    by_work,
    in_order,
    queued_pod,
    remove_gate,
)
from .stack import BACKOFF, run_kubextend
from .workbench import until

OTHER_GATE = "e2e.kubextend.dev/other"
OTHERS: Object = {"schedulingGates": [{"name": OTHER_GATE}]}
HIGH = "e2e-high"
# Pods of the tests in which something happens in the middle, and how many at least come before.
MANY, NARROW, FIRST, WINDOW = 120, 100, 20, 20
OK, GATEWAY_TIMEOUT = 200, 504

_numbers = itertools.count()
NewPods = Callable[[NodePool], QueuedPods]
NewQueue = Callable[..., QueueStack]


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane) -> Iterator[None]:
    install_queue(control_plane)
    with queue_scheduler(control_plane, "queue", **BACKOFF):
        yield


@pytest.fixture
def room(new_pool: NewPool) -> NodePool:
    """Room for all."""
    return new_pool(f"queue-room-{next(_numbers)}", 4)


@pytest.fixture
def seat(new_pool: NewPool) -> NodePool:
    """Room for one pod."""
    return new_pool(f"queue-seat-{next(_numbers)}", 1, pods=1)


def widen(api: Api, narrow: NodePool) -> None:
    """Make room for all."""
    api.create_nodes([node(f"{narrow.name}-more", {POOL_LABEL: narrow.name})])


@pytest.fixture
def narrow(new_pool: NewPool) -> NodePool:
    """Room for so many pods that no queue can be through before a test widens it."""
    return new_pool(f"queue-narrow-{next(_numbers)}", 1, pods=NARROW)


@pytest.fixture
def new_pods(api: Api, ends: ExitStack) -> NewPods:
    def make(pool: NodePool) -> QueuedPods:
        pods = QueuedPods(api, f"queued-{next(_numbers)}", pool)
        ends.callback(pods.close)
        return pods

    return make


@pytest.fixture
def new_queue(control_plane: ControlPlane) -> NewQueue:
    """Start a kubextend that sorts by QOSSort, or with another profile."""

    def start(profile: Object | None = None, **queue: Any) -> QueueStack:
        name = f"queue-{next(_numbers)}"
        return QueueStack(control_plane, name, profile or sorted_by("QOSSort"), **queue)

    return start


def test_pods_come_one_by_one_in_the_order_of_the_example_and_not_while_it_holds_them_back(
    examples: Path, seat: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(seat)
    endless = queued_pod("endless", seat.name, priority_class=HIGH)
    endless["metadata"]["annotations"] = {EXPECTED_SECONDS: "3601"}
    pods.create([endless])
    made = pods.create_mixed(36, seed=9, batches=2)
    example = yaml.safe_load((QUEUE_SORT / "kubextend.yaml").read_text())
    profile = {**example["profiles"][0], "schedulerName": SCHEDULER}
    with new_queue(profile, stack={"python_path": [examples]}, **example["queue"]):
        order = pods.run_one_at_a_time(len(made))
    assert sorted(order) == sorted(made)
    assert in_order(order, made, by_work)
    assert pods.gated() == {"endless"}


def was_cut_off(answer: Object) -> bool:
    """Whether kube-apiserver's answer was to a caller that had gone, after its body or amid it."""
    said = answer.get("message", "")
    reset = said.endswith(("unexpected EOF", "connection reset by peer"))
    return reset or answer["code"] == GATEWAY_TIMEOUT


def patched(control_plane: ControlPlane, pods: QueuedPods, *, killed: bool = False) -> Counter[str]:
    """How often kubextend changed each pod of a namespace, by the pod's name.

    Where it was killed, calls may have been cut off, which are left out.

    Raises: AssertionError: it asked for something else, or was refused.
    """
    written = control_plane.written(pods.namespace)
    assert {(e["verb"], e["objectRef"]["resource"]) for e in written} <= {("patch", "pods")}
    assert {e["objectRef"].get("subresource", "") for e in written} <= {""}
    failed = [e["responseStatus"] for e in written if e["responseStatus"]["code"] != OK]
    assert [answer for answer in failed if not (killed and was_cut_off(answer))] == []
    return Counter(e["objectRef"]["name"] for e in written if e["responseStatus"]["code"] == OK)


def test_no_pod_comes_forward_by_more_than_the_window_where_there_is_room_for_all(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    made = pods.create_mixed(200, seed=WINDOW)
    with new_queue(window=WINDOW):
        pods.until_placed(len(made))
    keys = [by_qos(made[name]) for name in pods.bound_order()]
    # All but the others in the window that go before it were bound when it was released.
    forward = [sum(later < key for later in keys[at:]) for at, key in enumerate(keys)]
    assert max(forward) < WINDOW
    assert patched(control_plane, pods) == Counter(made.keys())


def test_a_kill_in_the_middle_loses_no_pod_and_releases_none_twice(
    control_plane: ControlPlane, narrow: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(narrow)
    made = pods.create_mixed(MANY, seed=3)
    with new_queue(strategy="StrictFIFO") as queue:
        pods.until_placed(FIRST)
        queue.kill_kubextend()
        # The end of a lease that nobody gave back is waited for in the next test.
        forget_lease(control_plane.api)
        assert pods.gated(), "it went down in the middle"
        queue.start_kubextend()
        widen(control_plane.api, narrow)
        pods.until_placed(len(made))
    assert in_order(pods.bound_order(), made, by_qos)
    assert_none_twice(control_plane, pods)


def assert_none_twice(control_plane: ControlPlane, pods: QueuedPods) -> None:
    """No gate was taken off twice; a call that a kill cut off may or may not have done it."""
    assert set(patched(control_plane, pods, killed=True).values()) == {1}


def test_one_of_two_replicas_releases_and_the_other_takes_over_when_it_is_killed(
    control_plane: ControlPlane, narrow: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(narrow)
    with new_queue(strategy="StrictFIFO") as first:
        until(first.leads, "the first leads")
        with new_queue(strategy="StrictFIFO") as second:
            made = pods.create_mixed(MANY, seed=4)
            pods.until_placed(FIRST)
            assert (second.leads(), second.releases()) == (False, 0)
            first.kill_kubextend()
            left = len(pods.gated())
            widen(control_plane.api, narrow)
            pods.until_placed(len(made), TAKE_OVER_S)
            assert second.leads()
            # The last call of the first may have been under way.
            assert left - 1 <= second.releases() <= left
    assert_none_twice(control_plane, pods)


def test_no_pod_is_lost_or_comes_out_of_order_while_kube_apiserver_is_away(
    breakable_plane: ControlPlane, new_pool: NewPool, ends: ExitStack
) -> None:
    plane, name = breakable_plane, f"queue-away-{next(_numbers)}"
    install_queue(plane)
    narrow = new_pool(name, 1, pods=NARROW, api=plane.api)
    pods = QueuedPods(plane.api, name, narrow)
    ends.callback(pods.close)
    made = pods.create_mixed(MANY, seed=11)
    with (
        queue_scheduler(plane, name, **BACKOFF),
        QueueStack(plane, name, sorted_by("QOSSort"), strategy="StrictFIFO") as queue,
    ):
        pods.until_placed(FIRST)
        with plane.without_server():
            failures = "kubextend_reflector_failures_total"
            until(lambda: queue.counts().total(failures) > 0, "kubextend has noticed")
        assert pods.gated(), "it went away in the middle"
        widen(plane.api, narrow)
        pods.until_placed(len(made))
    # Not by the bindings: of one whose answer was cut off kube-scheduler writes a failure into the
    # pod later, so the binding is not the last that happened to it.
    patches = plane.written(pods.namespace)
    released = [e["objectRef"]["name"] for e in patches if e["responseStatus"].get("code") == OK]
    order = list(dict.fromkeys(released))
    assert len(order) >= len(made) - 1, "the end of kube-apiserver cuts off one record at most"
    assert in_order(order, made, by_qos)


def is_unschedulable(pod: Object) -> bool:
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_head_that_fits_nowhere_holds_up_the_others_with_strict_fifo_alone(
    strategy: str, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    head = queued_pod("head", "nowhere", qos="Guaranteed", priority_class=HIGH)
    made = pods.create([head, *(queued_pod(f"fits-{i}", pods.pool) for i in range(5))])
    with new_queue(strategy=strategy, maxHold="600s") as queue:
        until(lambda: is_unschedulable(pods.all()["head"]), "the head is unschedulable")
        if strategy == "StrictFIFO":
            made |= pods.create([queued_pod("latest", room.name)])

            def has_seen_the_latest() -> bool:
                ready = queue.counts().total("kubextend_queue_pods", state="ready")
                return ready == len(made) - 1

            until(has_seen_the_latest, "the queue has seen the latest")
            assert pods.gated() == made.keys() - {"head"}
            pods.delete("head")
        pods.until_placed(len(made) - 1)
    assert "head" not in pods.placed()


def test_pods_without_the_gate_or_with_others_are_not_touched(
    control_plane: ControlPlane, api: Api, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    namespace = api.create_namespace(f"never-queued-{next(_numbers)}")
    bystanders = [
        pod("of-another-scheduler", "nobody", room.name),
        queued_pod("with-other-gates", room.name, **OTHERS),
        queued_pod("unschedulable", "nowhere", priority_class=HIGH),
        queued_pod("not-queued", room.name),
    ]
    api.create_pods(namespace, bystanders)
    api.create_pods(pods.namespace, [pod("of-another-scheduler", "nobody", room.name)])

    def are_tried() -> bool:
        placed = "nodeName" in api.pod(namespace, "not-queued")["spec"]
        return placed and is_unschedulable(api.pod(namespace, "unschedulable"))

    until(are_tried, "kube-scheduler has tried the pods")
    before = [*api.pods(namespace), api.pod(pods.namespace, "of-another-scheduler")]
    made = pods.create([queued_pod("held", room.name, priority_class=HIGH, **OTHERS)])
    with new_queue(strategy="StrictFIFO"):
        made |= pods.create_mixed(20, seed=7)
        pods.until_placed(len(made) - 1)
        assert gates(pods.all()["held"]) == [OTHER_GATE, GATE]
        assert "held" not in patched(control_plane, pods)
        # Whatever the first pods led to comes before what the last ones do.
        remove_gate(api, pods.namespace, "held", OTHER_GATE)
        pods.until_placed(len(made))
    assert patched(control_plane, pods) == Counter(made.keys())
    assert control_plane.written(namespace) == []
    after = [*api.pods(namespace), api.pod(pods.namespace, "of-another-scheduler")]
    api.delete_pods(namespace)
    assert after == before


def test_kubextend_ungate_and_the_patch_of_the_readme_take_the_gate_off_and_no_other(
    control_plane: ControlPlane, api: Api, room: NodePool, new_pods: NewPods
) -> None:
    """No kubextend runs. The patch is sent as kubectl sends it."""
    readme = (DEPLOY / "queue" / "README.md").read_text()
    before, after = 'kubectl -n "$namespace" patch pod "$pod" -p \'', "'"
    (patch,) = {part.split(after)[0] for part in readme.split(before)[1:]}
    pods = new_pods(room)
    pods.create([queued_pod("two-gates", room.name, **OTHERS)])
    path = f"/api/v1/namespaces/{pods.namespace}/pods/two-gates"
    by_hand = api.call("PATCH", path, json.loads(patch), STRATEGIC, dryRun="All")
    made = pods.create_mixed(30, seed=8)
    run_kubextend("ungate", "--kubeconfig", control_plane.kubeconfig("admin"))
    pods.until_placed(len(made))
    assert gates(pods.all()["two-gates"]) == gates(by_hand) == [OTHER_GATE]
