"""The order in which pods are bound is that of the queueSort plugin, whatever happens meanwhile."""

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import yaml

from .controlplane import ControlPlane
from .kubeapi import MERGE, POOL_LABEL, STRATEGIC, Api, NodePool, Object, condition, node, pod
from .manifests import DEPLOY, QUEUE_SORT
from .queue_policies import GATE, SCHEDULER, gates, install_queue
from .queue_stack import LEASE, TAKE_OVER_S, QueueStack, forget_lease, queue_scheduler, sorted_by
from .queued_pods import (
    EXPECTED_SECONDS,
    Key,
    QueuedPods,
    brought_gates,
    by_priority,
    by_qos,
    by_work,
    in_order,
    queued_pod,
    with_gates,
)
from .stack import BACKOFF, run_kubextend
from .workbench import until

OTHER_GATE = "e2e.kubextend.dev/other"
HIGH = "e2e-high"
# Pods of the tests in which something happens in the middle, and how many at least come before.
MANY, NARROW, FIRST = 120, 100, 20
OK, GATEWAY_TIMEOUT = 200, 504

_numbers = itertools.count()
NewPods = Callable[[NodePool], QueuedPods]


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane) -> Iterator[None]:
    install_queue(control_plane)
    running = queue_scheduler(control_plane, "queue", **BACKOFF)
    yield
    running.close()


@pytest.fixture(scope="module")
def room(api: Api) -> Iterator[NodePool]:
    """Room for all."""
    pool = NodePool(api, "queue-room", 4)
    yield pool
    pool.delete()


@pytest.fixture(scope="module")
def seat(api: Api) -> Iterator[NodePool]:
    """Room for one pod."""
    pool = NodePool(api, "queue-seat", 1, pods=1)
    yield pool
    pool.delete()


class Narrow:
    """Room for so many pods at first, so that a queue cannot be through before a test says so."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.pool = NodePool(api, f"queue-narrow-{next(_numbers)}", 1, pods=NARROW)

    def widen(self) -> None:
        """Make room for all."""
        labels = {POOL_LABEL: self.pool.name}
        self._api.create_nodes([node(f"{self.pool.name}-more", labels)])


@pytest.fixture
def narrow(api: Api) -> Iterator[Narrow]:
    narrow = Narrow(api)
    yield narrow
    narrow.pool.delete()


@pytest.fixture
def new_pods(api: Api) -> Iterator[NewPods]:
    made: list[QueuedPods] = []

    def make(pool: NodePool) -> QueuedPods:
        made.append(QueuedPods(api, f"queued-{next(_numbers)}", pool))
        return made[-1]

    yield make
    for pods in made:
        pods.close()


@pytest.fixture
def new_queue(control_plane: ControlPlane) -> Callable[..., QueueStack]:
    """Start a kubextend that sorts by QOSSort."""

    def start(**queue: object) -> QueueStack:
        name = f"queue-{next(_numbers)}"
        return QueueStack(control_plane, name, sorted_by("QOSSort"), **queue)

    return start


NewQueue = Callable[..., QueueStack]


@pytest.mark.parametrize(
    ("plugin", "key"),
    [pytest.param("QOSSort", by_qos), pytest.param("PrioritySort", by_priority)],
    ids=["QOSSort", "PrioritySort"],
)
def test_pods_come_one_by_one_in_the_order_of_the_plugin_where_there_is_room_for_one(
    plugin: str, key: Key, control_plane: ControlPlane, seat: NodePool, new_pods: NewPods
) -> None:
    pods = new_pods(seat)
    made = pods.create_mixed(48, seed=6, batches=3)
    profile = sorted_by(plugin)
    with QueueStack(control_plane, f"order-{next(_numbers)}", profile, strategy="StrictFIFO"):
        order = pods.run_one_at_a_time(len(made))
    assert sorted(order) == sorted(made)
    assert in_order(order, made, key)


def test_pods_come_one_by_one_in_the_order_of_the_example_and_not_while_it_holds_them_back(
    control_plane: ControlPlane, queue_sort: Path, seat: NodePool, new_pods: NewPods
) -> None:
    pods = new_pods(seat)
    endless = queued_pod("endless", seat.name, priority_class=HIGH)
    endless["metadata"]["annotations"] = {EXPECTED_SECONDS: "3601"}
    pods.create([endless])
    made = pods.create_mixed(48, seed=9, batches=2)
    example = yaml.safe_load((QUEUE_SORT / "kubextend.yaml").read_text())
    profile = {**example["profiles"][0], "schedulerName": SCHEDULER}
    path = [queue_sort]
    with QueueStack(
        control_plane, f"example-{next(_numbers)}", profile, python_path=path, **example["queue"]
    ):
        order = pods.run_one_at_a_time(len(made))
    assert sorted(order) == sorted(made)
    assert in_order(order, made, by_work)
    assert pods.gated() == {"endless"}


def was_cut_off(answer: Object) -> bool:
    """Whether kube-apiserver's answer was to a caller that had gone, after its body or amid it."""
    return answer["code"] == GATEWAY_TIMEOUT or answer.get("message") == "unexpected EOF"


def patched(control_plane: ControlPlane, pods: QueuedPods, *, killed: bool = False) -> Counter[str]:
    """How often kubextend changed each pod of a namespace, by the pod's name.

    Args:
        control_plane: of the pods.
        pods: of the namespace.
        killed: whether calls may have been cut off, which are left out.

    Raises: AssertionError: it asked for something else, or was refused.
    """
    written = control_plane.written(pods.namespace)
    assert {(e["verb"], e["objectRef"]["resource"]) for e in written} <= {("patch", "pods")}
    assert {e["objectRef"].get("subresource", "") for e in written} <= {""}
    failed = [e["responseStatus"] for e in written if e["responseStatus"]["code"] != OK]
    assert [answer for answer in failed if not (killed and was_cut_off(answer))] == []
    return Counter(e["objectRef"]["name"] for e in written if e["responseStatus"]["code"] == OK)


def once_each(made: dict[str, Object]) -> Counter[str]:
    return Counter(made.keys())


def test_a_window_of_one_keeps_the_order_where_there_is_room_for_all(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    made = pods.create_mixed(200, seed=1)
    with new_queue():
        pods.until_placed(len(made))
    assert in_order(pods.bound_order(), made, by_qos)
    assert patched(control_plane, pods) == once_each(made)


def test_a_wider_window_lets_no_pod_forward_by_more_than_its_width(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    window = 20
    pods = new_pods(room)
    made = pods.create_mixed(200, seed=2)
    with new_queue(window=window):
        pods.until_placed(len(made))
    keys = [by_qos(made[name]) for name in pods.bound_order()]
    # All but the others in the window that go before it were bound when it was released.
    forward = [sum(later < key for later in keys[at:]) for at, key in enumerate(keys)]
    assert max(forward) < window
    assert patched(control_plane, pods) == once_each(made)


def terminate(stack: QueueStack) -> None:
    assert stack.stop_kubextend() == 0


def kill(stack: QueueStack) -> None:
    stack.kill_kubextend()


@pytest.mark.parametrize("end", [terminate, kill])
def test_a_restart_in_the_middle_loses_no_pod_and_releases_none_twice(
    end: Callable[[QueueStack], None],
    control_plane: ControlPlane,
    narrow: Narrow,
    new_pods: NewPods,
    new_queue: NewQueue,
) -> None:
    pods = new_pods(narrow.pool)
    made = pods.create_mixed(MANY, seed=3)
    with new_queue(strategy="StrictFIFO") as queue:
        pods.until_placed(FIRST)
        end(queue)
        # The end of a lease that nobody gave back is waited for in the next test.
        forget_lease(control_plane.api)
        assert pods.gated(), "it went down in the middle"
        queue.start_kubextend()
        narrow.widen()
        pods.until_placed(len(made))
    assert in_order(pods.bound_order(), made, by_qos)
    assert_none_twice(control_plane, pods)


def assert_none_twice(control_plane: ControlPlane, pods: QueuedPods) -> None:
    """No gate was taken off twice; a call that a kill cut off may or may not have done it."""
    assert set(patched(control_plane, pods, killed=True).values()) == {1}


def test_one_of_two_replicas_releases_and_the_other_takes_over_when_it_is_killed(
    control_plane: ControlPlane, narrow: Narrow, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(narrow.pool)
    with new_queue(strategy="StrictFIFO") as first:
        until(first.leads, "the first leads")
        with new_queue(strategy="StrictFIFO") as second:
            made = pods.create_mixed(MANY, seed=4)
            pods.until_placed(FIRST)
            assert (second.leads(), second.releases()) == (False, 0)
            first.kill_kubextend()
            left = len(pods.gated())
            narrow.widen()
            pods.until_placed(len(made), TAKE_OVER_S)
            assert second.leads()
            # The last call of the first may have been under way.
            assert left - 1 <= second.releases() <= left
    assert_none_twice(control_plane, pods)


def test_a_replica_that_ends_in_good_order_hands_over_its_lease(
    api: Api, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    with new_queue() as first:
        until(first.leads, "the first leads")
        holder = api.call("GET", LEASE)["spec"]["holderIdentity"]
        with new_queue() as second:
            terminate(first)
            assert api.call("GET", LEASE)["spec"]["holderIdentity"] != holder
            until(second.leads, "the second leads")
            made = pods.create_mixed(5, seed=5)
            pods.until_placed(len(made))


def test_no_pod_is_lost_or_comes_out_of_order_while_kube_apiserver_is_away(
    breakable_plane: ControlPlane,
) -> None:
    plane = breakable_plane
    install_queue(plane)
    name = f"queue-away-{next(_numbers)}"
    scheduler = queue_scheduler(plane, name, **BACKOFF)
    narrow = Narrow(plane.api)
    pods = QueuedPods(plane.api, name, narrow.pool)
    made = pods.create_mixed(MANY, seed=11)
    with QueueStack(plane, name, sorted_by("QOSSort"), strategy="StrictFIFO") as queue:
        pods.until_placed(FIRST)
        with plane.without_server():
            until(lambda: failures(queue) > 0, "kubextend has noticed")
        assert pods.gated(), "it went away in the middle"
        narrow.widen()
        pods.until_placed(len(made))
    pods.close()
    narrow.pool.delete()
    scheduler.close()
    # Not by the bindings: of one whose answer was cut off kube-scheduler writes a failure into the
    # pod later, so the binding is not the last that happened to it.
    patches = plane.written(pods.namespace)
    released = [e["objectRef"]["name"] for e in patches if e["responseStatus"].get("code") == 200]
    order = list(dict.fromkeys(released))
    assert len(order) >= len(made) - 1, "the end of kube-apiserver cuts off one record at most"
    assert in_order(order, made, by_qos)


def failures(queue: QueueStack) -> float:
    """How often a list or a watch ended in an error."""
    return queue.counts().total("kubextend_reflector_failures_total")


def until_unschedulable(pods: QueuedPods, name: str) -> None:
    def says() -> bool:
        return condition(pods.all()[name], "PodScheduled").get("reason") == "Unschedulable"

    until(says, f"{name} is unschedulable")


def create_with_head(pods: QueuedPods) -> dict[str, Object]:
    """Create pods of which the first in order fits nowhere."""
    head = queued_pod("head", "nowhere", qos="Guaranteed", priority_class=HIGH)
    return pods.create([head, *(queued_pod(f"fits-{i}", pods.pool) for i in range(5))])


# What kube-apiserver noted of who wrote which field is forgotten, and so the pod is smaller.
NOBODY_WROTE: Object = {"managedFields": [{}]}


@contextmanager
def unpatchable(api: Api, pods: QueuedPods, name: str) -> Iterator[None]:
    """Have a pod that goes first, as large as etcd takes it: a patch makes it too large.

    So would its deletion, but for what it is rid of before.
    """
    create_unpatchable(api, pods, name)
    yield
    lighter = {"metadata": {"annotations": {"ballast": None}, **NOBODY_WROTE}}
    api.call("PATCH", f"/api/v1/namespaces/{pods.namespace}/pods/{name}", lighter, MERGE)


def create_unpatchable(api: Api, pods: QueuedPods, name: str) -> None:
    made = with_gates(queued_pod(name, pods.pool, qos="Guaranteed"), brought_gates())
    made["metadata"] |= {"annotations": {"ballast": "z" * 2000}, **NOBODY_WROTE}
    for size in range(1_570_000, 1_568_000, -50):
        made["spec"]["containers"][0]["args"] = ["y" * size]
        with suppress(httpx.HTTPStatusError):
            api.call("POST", f"/api/v1/namespaces/{pods.namespace}/pods", made)
            return
    message = "etcd takes no pod of that size"
    raise AssertionError(message)


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_pod_that_cannot_be_patched_is_set_aside_and_named(
    strategy: str,
    control_plane: ControlPlane,
    room: NodePool,
    new_pods: NewPods,
    new_queue: NewQueue,
) -> None:
    pods = new_pods(room)
    name = "x" * 253
    oversized = unpatchable(control_plane.api, pods, name)
    with oversized, new_queue(strategy=strategy, maxHold="600s") as queue:
        until(lambda: queue.counts().total("kubextend_queue_pods", state="set_aside") == 1, "aside")
        pods.create(queued_pod(f"neighbour-{i}", room.name) for i in range(5))
        pods.until_placed(5)
        assert pods.gated() == {name}
        kubeconfig = control_plane.kubeconfig("admin")
        until(
            lambda: is_shown(queue, kubeconfig, name, "etcdserver: request is too large"),
            "it is named with the reason",
        )


def is_shown(queue: QueueStack, kubeconfig: Path, name: str, why: str) -> bool:
    """Whether the command says of a pod why it is not released."""
    shown = run_kubextend("queue", "--config", queue.config, "--kubeconfig", kubeconfig)
    (row,) = (line for line in shown.splitlines() if name in line)
    return row.endswith(why)


def test_strict_fifo_waits_for_a_head_that_fits_nowhere(
    room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    made = create_with_head(pods)
    with new_queue(strategy="StrictFIFO", maxHold="600s") as queue:
        until_unschedulable(pods, "head")
        made |= pods.create([queued_pod("latest", room.name)])
        until(lambda: ready(queue) == len(made) - 1, "the queue has seen the latest")
        assert pods.gated() == made.keys() - {"head"}
        pods.delete("head")
        pods.until_placed(len(made) - 1)


def ready(queue: QueueStack) -> float:
    """How many pods wait for their turn."""
    return queue.counts().total("kubextend_queue_pods", state="ready")


def test_strict_fifo_waits_for_a_head_that_fits_nowhere_for_max_hold_and_no_longer(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    made = create_with_head(pods)
    with new_queue(strategy="StrictFIFO", maxHold="2s"):
        pods.until_placed(len(made) - 1)
        until_unschedulable(pods, "head")
    head, after = (asked_at(e) for e in control_plane.written(pods.namespace)[:2])
    # kubextend counts from the answer to the first.
    assert (after - head).total_seconds() > 1.9


def asked_at(event: Object) -> dt.datetime:
    """When kube-apiserver was asked for a change."""
    return dt.datetime.fromisoformat(event["requestReceivedTimestamp"])


def test_best_effort_fifo_passes_a_head_that_fits_nowhere(
    room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    made = create_with_head(pods)
    with new_queue(strategy="BestEffortFIFO"):
        pods.until_placed(len(made) - 1)
        until_unschedulable(pods, "head")
    assert "head" not in pods.placed()


def test_a_pod_with_other_gates_is_passed_over_until_they_are_gone(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    others = [{"name": OTHER_GATE}]
    held = queued_pod("held", room.name, priority_class=HIGH, schedulingGates=others)
    made = pods.create([held, *(queued_pod(f"free-{i}", room.name) for i in range(5))])
    with new_queue(strategy="StrictFIFO"):
        pods.until_placed(len(made) - 1)
        assert gates(pods.all()["held"]) == [OTHER_GATE, GATE]
        assert "held" not in patched(control_plane, pods)
        pods.remove_gate("held", OTHER_GATE)
        pods.until_placed(len(made))
    assert patched(control_plane, pods) == once_each(made)


def test_pods_without_the_gate_are_never_touched(
    control_plane: ControlPlane, api: Api, room: NodePool, new_pods: NewPods, new_queue: NewQueue
) -> None:
    pods = new_pods(room)
    namespace = api.create_namespace(f"never-queued-{next(_numbers)}")
    others = [{"name": OTHER_GATE}]
    bystanders = [
        pod("of-another-scheduler", "nobody", room.name),
        queued_pod("with-other-gates", room.name, schedulingGates=others),
        queued_pod("unschedulable", "nowhere", priority_class=HIGH),
        queued_pod("not-queued", room.name),
    ]
    api.create_pods(namespace, bystanders)
    api.create_pods(pods.namespace, [pod("of-another-scheduler", "nobody", room.name)])
    until(lambda: [p for p in api.pods(namespace) if "nodeName" in p["spec"]], "one is placed")
    until(
        lambda: (
            condition(api.pod(namespace, "unschedulable"), "PodScheduled")["reason"]
            == "Unschedulable"
        ),
        "kube-scheduler has tried the other",
    )
    before = [*api.pods(namespace), api.pod(pods.namespace, "of-another-scheduler")]
    with new_queue():
        made = pods.create_mixed(20, seed=7)
        pods.until_placed(len(made))
        # Whatever the first pods led to comes before what the last one does.
        made |= pods.create([queued_pod("last", room.name)])
        pods.until_placed(len(made))
    assert patched(control_plane, pods) == once_each(made)
    assert control_plane.written(namespace) == []
    after = [*api.pods(namespace), api.pod(pods.namespace, "of-another-scheduler")]
    api.delete_pods(namespace)
    assert after == before


def test_kubextend_queue_shows_the_pods_in_their_order_and_why_they_wait(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods, tmp_path: Path
) -> None:
    """Nobody has to run for that."""
    pods = new_pods(room)
    others = [{"name": OTHER_GATE}]
    pods.create([queued_pod("two-gates", room.name, schedulingGates=others)])
    made = pods.create_mixed(30, seed=10)
    config = tmp_path / "kubextend.yaml"
    document = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(control_plane.kubeconfig("kubextend"))},
        "profiles": [sorted_by("QOSSort")],
    }
    config.write_text(yaml.safe_dump(document))
    rows = json.loads(run_kubextend("queue", "--config", config, "--output", "json"))
    *waiting, held = [row for row in rows if row["pod"].startswith(f"{pods.namespace}/")]
    names = [row["pod"].split("/")[1] for row in waiting]
    assert sorted(names) == sorted(made)
    assert in_order(names, made, by_qos)
    assert [row["position"] for row in waiting] == list(range(1, len(made) + 1))
    assert [row["qosClass"] for row in waiting] == [
        made[name]["status"]["qosClass"] for name in names
    ]
    assert [row["priority"] for row in waiting] == [made[n]["spec"]["priority"] for n in names]
    assert (held["pod"], held["position"]) == (f"{pods.namespace}/two-gates", None)
    assert OTHER_GATE in held["why"]


def test_kubextend_ungate_lets_all_pods_go_when_kubextend_is_gone(
    control_plane: ControlPlane, room: NodePool, new_pods: NewPods
) -> None:
    pods = new_pods(room)
    others = [{"name": OTHER_GATE}]
    made = pods.create_mixed(30, seed=8)
    made |= pods.create([queued_pod("two-gates", room.name, schedulingGates=others)])
    kubeconfig = control_plane.kubeconfig("admin")
    run_kubextend("ungate", "--kubeconfig", kubeconfig)
    pods.until_placed(len(made) - 1)
    assert gates(pods.all()["two-gates"]) == [OTHER_GATE]


def test_the_patch_that_the_readme_gives_to_kubectl_takes_the_gate_off_and_no_other(
    control_plane: ControlPlane, api: Api, room: NodePool, new_pods: NewPods
) -> None:
    """What kubectl sends for ``patch pod NAME -p PATCH``."""
    readme = (DEPLOY / "queue" / "README.md").read_text()
    (patch,) = {
        part.split("'")[0]
        for part in readme.split('kubectl -n "$namespace" patch pod "$pod" -p \'')[1:]
    }
    pods = new_pods(room)
    pods.create([queued_pod("two-gates", room.name, schedulingGates=[{"name": OTHER_GATE}])])
    path = f"/api/v1/namespaces/{pods.namespace}/pods/two-gates"
    patched = api.call("PATCH", path, json.loads(patch), STRATEGIC)
    assert gates(patched) == [OTHER_GATE]
