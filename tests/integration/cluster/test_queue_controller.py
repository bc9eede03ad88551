"""The queue joined to an API: who is released when, through restarts and changes of the leader."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest
from cluster_world import PATIENCE_S
from scripted_api import Request, ScriptedApi, refusing

from kubextend import app, config, core
from kubextend.cluster import ungater as ungater_module
from kubextend.plugins import IN_TREE
from kubextend.profile.waiting_pods import WaitingPod
from kubextend.queue import State
from kubextend.queue import queue_runner as runner_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kubextend.config import ExtenderConfiguration
    from kubextend.queue_controller import QueueController

GATE = "kubextend.dev/queue"


def configured(kubeconfig: Path, **queue: Any) -> ExtenderConfiguration:
    return config.parse(
        {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "cluster": {"kubeconfig": str(kubeconfig)},
            "queue": queue,
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}},
                }
            ],
        },
        known=IN_TREE,
    )


@contextmanager
def running(kubeconfig: Path, **queue: Any) -> Iterator[app.App]:
    built = app.build(configured(kubeconfig, **queue))
    built.follow()
    asyncio.run(built.start())
    try:
        yield built
    finally:
        built.stop()


class Binding:
    """Binds whatever is released, one pod after the other, and writes down in which order."""

    def __init__(self, api: ScriptedApi) -> None:
        self._api = api
        self.order: list[str] = []
        self.most_at_once = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.001):
            names = self._api.released_pods()
            self.most_at_once = max(self.most_at_once, len(names))
            for name in names:
                self.order.append(name)
                self._api.bind_pod(name)


def gate_pods(api: ScriptedApi, count: int) -> list[str]:
    """Pods of mixed priorities; their names in the order in which they are to be bound."""
    priorities = {f"p{number:02}": random.Random(number).randrange(4) for number in range(count)}
    for name, priority in priorities.items():
        api.put_gated_pod(name, [GATE], priority=priority)
    return sorted(priorities, key=lambda name: (-priorities[name], name))


def noting(api: ScriptedApi) -> list[tuple[str, list[str]]]:
    """Grows with each patch: its pod, and which pods are released and on no node by then."""
    notes: list[tuple[str, list[str]]] = []

    def note(request: Request) -> bool:
        notes.append((request.parts[5], api.released_pods()))
        return False

    api.fail("patch", *[note] * 100)
    return notes


def patches(api: ScriptedApi) -> list[str]:
    return [
        path.split("/")[6].split("?")[0] for kind, path, _, _ in api.requests if kind == "patch"
    ]


def metric(built: app.App, name: str, **labels: str) -> float | None:
    return built.metrics.registry.get_sample_value(name, labels)


def test_pods_are_bound_in_order_one_at_a_time(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    order = gate_pods(api, 40)
    with Binding(api) as binding, running(kubeconfig, strategy="StrictFIFO") as built:
        eventually(lambda: len(binding.order) == 40)
        eventually(lambda: metric(built, "kubextend_queue_releases_total", result="released") == 40)
        eventually(lambda: metric(built, "kubextend_queue_wait_seconds_count") == 40)
        eventually(lambda: metric(built, "kubextend_queue_pods", state="released") == 0)
        assert metric(built, "kubextend_queue_leader") == 1
    assert binding.order == order
    assert binding.most_at_once == 1
    assert patches(api) == order


def test_a_window_of_five_has_five_pods_under_way_and_no_more(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    order = gate_pods(api, 30)
    notes = noting(api)
    with running(kubeconfig, window=5):
        eventually(lambda: sorted(api.released_pods()) == sorted(order[:5]))
        api.bind_pod(order[2])
        api.delete_pod(order[0])
        eventually(lambda: sorted(api.released_pods()) == sorted([order[1], *order[3:7]]))
    assert sorted(name for name, _ in notes) == sorted(order[:7])
    assert max(len(others) for _, others in notes) <= 4


def test_an_unschedulable_pod_is_waited_for_under_strict_fifo(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    first, second, _ = gate_pods(api, 3)
    notes = noting(api)
    with running(kubeconfig, strategy="StrictFIFO", maxHold="1h") as built:
        eventually(lambda: api.released_pods() == [first])
        api.park_pod(first)
        # What the watch brings later is known, and the parked pod is waited for still.
        api.put_gated_pod("later", [GATE], priority=-1)
        eventually(lambda: metric(built, "kubextend_queue_pods", state="ready") == 3)
        api.bind_pod(first)
        eventually(lambda: api.released_pods() == [second])
    assert notes == [(first, []), (second, [])]


@pytest.mark.parametrize(
    "queue",
    [
        {"strategy": "BestEffortFIFO", "maxHold": "1h"},
        {"strategy": "StrictFIFO", "maxHold": "100ms"},
    ],
    ids=["best effort", "strict, for as long as maxHold"],
)
def test_an_unschedulable_pod_does_not_hold_up_the_others(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None], queue: dict[str, str]
) -> None:
    first, second, *_ = gate_pods(api, 3)
    with running(kubeconfig, **queue):
        eventually(lambda: first in api.released_pods())
        api.park_pod(first)
        eventually(lambda: set(api.released_pods()) >= {first, second})


def test_restarted_in_the_middle_nothing_is_lost_and_nothing_released_twice(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    order = gate_pods(api, 40)
    with Binding(api) as binding:
        for reached in (10, 25, 40):
            with running(kubeconfig):
                eventually(lambda: len(binding.order) >= reached)  # noqa: B023
    assert binding.order == order
    assert binding.most_at_once == 1
    assert patches(api) == order


def test_what_is_released_and_not_bound_keeps_its_place_over_a_restart(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    first, second, *_ = gate_pods(api, 3)
    notes = noting(api)
    with running(kubeconfig, strategy="StrictFIFO", maxHold="1h"):
        eventually(lambda: api.released_pods() == [first])
    api.park_pod(first)
    with running(kubeconfig, strategy="StrictFIFO", maxHold="1h") as built:
        eventually(lambda: metric(built, "kubextend_queue_leader") == 1)
        eventually(lambda: metric(built, "kubextend_queue_pods", state="ready") == 2)
        api.bind_pod(first)
        eventually(lambda: api.released_pods() == [second])
    assert notes == [(first, []), (second, [])]


def test_only_one_replica_releases_and_the_other_takes_over_at_once(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    first, second, *_ = gate_pods(api, 3)
    leaving = app.build(configured(kubeconfig))
    leaving.follow()
    asyncio.run(leaving.start())
    eventually(lambda: api.released_pods() == [first])
    with running(kubeconfig) as following:
        eventually(lambda: metric(following, "kubextend_queue_pods", state="released") == 1)
        assert metric(following, "kubextend_queue_leader") == 0
        leaving.stop()
        eventually(lambda: metric(following, "kubextend_queue_leader") == 1)
        assert api.released_pods() == [first]
        api.bind_pod(first)
        eventually(lambda: api.released_pods() == [second])
    assert patches(api) == [first, second]
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""
    assert api.lease["spec"]["leaseTransitions"] == 1


def test_a_replica_that_begins_to_lead_releases_though_nothing_happens_to_a_pod(
    api: ScriptedApi,
    kubeconfig: Path,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_module, "FOLLOWER_LOOKS_S", 10 * PATIENCE_S)
    (first,) = gate_pods(api, 1)
    built, side = joined(kubeconfig)
    leads, has_looked = side.runner._leads, threading.Event()

    def looks() -> bool:
        answer = leads()
        if side.runner.counts()[State.READY]:
            has_looked.set()
        return answer

    def not_before_the_queue_has_looked(request: Request) -> bool:
        del request
        assert has_looked.wait(PATIENCE_S)
        return False

    monkeypatch.setattr(side.runner, "_leads", looks)
    api.fail("lease", not_before_the_queue_has_looked)
    built.follow()
    asyncio.run(built.start())
    eventually(lambda: api.released_pods() == [first])
    built.stop()


def test_readiness_waits_for_the_pods_and_not_for_the_lease(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    api.fail("lease", *[refusing(403, "Forbidden", "leases is forbidden")] * 1000)
    gate_pods(api, 2)
    with running(kubeconfig) as built:
        eventually(lambda: built.health.readyz(verbose=False)[0] == 200)
        assert metric(built, "kubextend_queue_leader") == 0
        assert api.released_pods() == []


def test_a_pod_that_may_not_be_patched_lets_the_others_pass(
    api: ScriptedApi,
    kubeconfig: Path,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ungater_module, "MOST_REFUSALS", 2)
    first, second, *_ = gate_pods(api, 3)
    api.fail("patch", *[refusing(403, "Forbidden", "denied by a policy")] * 2)
    with running(kubeconfig) as built:
        eventually(lambda: api.released_pods() == [second])
        assert patches(api) == [first, first, second]
        assert metric(built, "kubextend_queue_pods", state="set_aside") == 1
        assert metric(built, "kubextend_queue_releases_total", result="refused") == 1


def test_other_namespaces_do_not_wait_while_a_refused_pod_is_tried_again(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    api.put_gated_pod("first", [GATE], priority=9)
    api.put_gated_pod("other", [GATE])
    api.pods["other"]["metadata"]["namespace"] = "neighbour"
    bound: list[str] = []

    def until_the_other_is_bound(request: Request) -> bool:
        return "first" in request.path and not bound and refusing(500, "InternalError")(request)

    api.fail("patch", *[until_the_other_is_bound] * 100)
    with running(kubeconfig, fairQueuing="ByNamespace", maxHold="1h") as built:
        eventually(lambda: api.released_pods() == ["other"])
        api.bind_pod("other")
        bound.append("other")
        eventually(lambda: api.released_pods() == ["first"])
        # The first was never set aside.
        assert metric(built, "kubextend_queue_releases_total", result="refused") is None
        eventually(lambda: metric(built, "kubextend_queue_pods", state="released") == 1)


def test_the_members_of_a_pod_group_are_released_though_none_is_bound(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    names = [f"part-{number:02}" for number in range(20)]
    api.put_gated_pod("alone", [GATE], priority=-1)
    for name in names:
        api.put_gated_pod(name, [GATE], schedulingGroup={"podGroupName": "training"})
    notes = noting(api)
    with running(kubeconfig, maxHold="1h") as built:
        eventually(lambda: api.released_pods() == names)
        eventually(lambda: metric(built, "kubextend_queue_pods", state="released") == 20)
        # One patch was under way at a time, in order.
        assert notes == [(name, names[:number]) for number, name in enumerate(names)]
        for name in names:
            api.bind_pod(name)
        eventually(lambda: api.released_pods() == ["alone"])


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_pod_that_etcd_finds_too_large_to_patch_does_not_stop_the_queue(
    api: ScriptedApi,
    kubeconfig: Path,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
) -> None:
    monkeypatch.setattr(ungater_module, "MOST_REFUSALS", 2)
    first, *others = gate_pods(api, 20)

    def too_large(request: Request) -> bool:
        message = "etcdserver: request is too large"
        return first in request.path and refusing(500, "InternalError", message)(request)

    api.fail("patch", *[too_large] * 10_000)
    with Binding(api) as binding, running(kubeconfig, strategy=strategy, maxHold="1h") as built:
        eventually(lambda: len(binding.order) == 19)
        eventually(lambda: metric(built, "kubextend_queue_pods", state="set_aside") == 1)
        eventually(lambda: api.events)
    assert binding.order == others
    assert api.events[0]["regarding"]["name"] == first
    assert api.events[0]["note"].endswith("etcdserver: request is too large")


def test_a_pod_that_permit_holds_leaves_the_window(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    first, second, *_ = gate_pods(api, 3)

    async def hold(built: app.App) -> None:
        (pod,) = (pod for pod in built_pods(built) if pod.name == first)
        built.verbs.waiting_pods.add(WaitingPod(pod, "n1", {"Gang": 60.0}))

    with running(kubeconfig, maxHold="1h") as built:
        eventually(lambda: api.released_pods() == [first])
        asyncio.run(hold(built))
        eventually(lambda: api.released_pods() == sorted([first, second]))


def test_the_queue_hears_that_permit_no_longer_holds_a_pod(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    (first,) = gate_pods(api, 1)
    told: list[tuple[str, str]] = []

    async def hold_and_let_go(built: app.App) -> None:
        assert built._queue is not None

        def tell(change: Callable[..., object], uid: str) -> None:
            # The watch tells the queue too, of the gate that is off.
            if "permit" in change.__name__:
                told.append((change.__name__, uid))

        built._queue.runner.tell = tell  # type: ignore[method-assign,assignment]
        (pod,) = built_pods(built)
        waiting = WaitingPod(pod, "n1", {"Gang": 60.0})
        built.verbs.waiting_pods.add(waiting)
        assert told == [("held_in_permit", waiting.pod.uid)]
        built.verbs.waiting_pods.remove(waiting)
        waiting.end()

    with running(kubeconfig, maxHold="1h") as built:
        eventually(lambda: api.released_pods() == [first])
        asyncio.run(hold_and_let_go(built))
    assert [change for change, _ in told] == ["held_in_permit", "left_permit"]


def built_pods(built: app.App) -> list[core.Pod]:
    assert built._queue is not None
    return built._queue.pods.store.pods()


def test_pods_without_the_gate_are_never_touched(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    api.put_pod("free", "uid-free")
    api.put_gated_pod("others", ["example.com/other"])
    api.put_gated_pod("both", [GATE, "example.com/other"])
    api.put_gated_pod("elsewhere", [GATE], schedulerName="another")
    api.put_gated_pod("ours", [GATE])
    with running(kubeconfig, window=10):
        eventually(lambda: "ours" in api.released_pods())
        api.put_gated_pod("later", [GATE])
        eventually(lambda: "later" in api.released_pods())
    assert patches(api) == ["ours", "later"]


def test_a_patch_whose_answer_is_lost_is_no_second_release(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    def lost(request: Request) -> bool:
        with request.server_api.changed:
            request.take_gates_off(request.server_api.pods[first])
        request.cut()
        return True

    first, second, *_ = gate_pods(api, 3)
    api.fail("patch", lost)
    with running(kubeconfig):
        eventually(lambda: len(patches(api)) == 2)
        assert patches(api) == [first, first]
        assert api.released_pods() == [first]
        assert api.pods[first]["metadata"]["generation"] == 2
        api.bind_pod(first)
        eventually(lambda: api.released_pods() == [second])


def test_how_long_a_pod_waited_counts_from_its_creation(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    (name,) = gate_pods(api, 1)
    hour_s = 3600
    created = datetime.now(UTC) - timedelta(seconds=hour_s)
    api.pods[name]["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    with running(kubeconfig) as built:
        eventually(lambda: metric(built, "kubextend_queue_wait_seconds_count") == 1)
        waited_s = metric(built, "kubextend_queue_wait_seconds_sum")
    assert waited_s is not None
    assert waited_s >= hour_s


def joined(kubeconfig: Path) -> tuple[app.App, QueueController]:
    """An app and its queue, not started yet."""
    built = app.build(configured(kubeconfig))
    assert built._queue is not None
    return built, built._queue


def test_a_patch_that_failed_is_not_tried_again_without_the_lease(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    first, _ = gate_pods(api, 2)
    built, side = joined(kubeconfig)

    def lose_the_lease(request: Request) -> bool:
        side.election.stop()
        return refusing(503, "ServiceUnavailable")(request)

    api.fail("patch", lose_the_lease)
    built.follow()
    asyncio.run(built.start())
    eventually(lambda: api.counts["patch"] == 1)
    side.ungater.finish()
    built.stop()
    assert patches(api) == [first]


def test_the_lease_is_given_back_once_no_patch_is_under_way(
    api: ScriptedApi,
    kubeconfig: Path,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ungater_module, "CALL_S", PATIENCE_S)
    gate_pods(api, 1)
    built, side = joined(kubeconfig)
    holders: list[str] = []

    def held_by(request: Request) -> bool:
        del request
        eventually(side.ungater._stopped.is_set)
        assert api.lease is not None
        holders.append(api.lease["spec"]["holderIdentity"])
        return False

    api.fail("patch", held_by)
    built.follow()
    asyncio.run(built.start())
    eventually(lambda: api.counts["patch"] == 1)
    built.stop()
    assert holders == [side.election.identity]
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""
