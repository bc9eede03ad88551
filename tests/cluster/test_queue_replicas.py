"""Replicas of kubextend at the Kubernetes API: their Lease, their threads, their plugins."""

import random
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import Request, Running, ScriptedApi, SkippingTime, lost_request, running
from tests.doors.queue_stories import GATE, alive, queue_configuration

from kubextend import Status, core

LAPSE_EVERY_S, LONGEST_LAPSE_S = 20.0, 14.0


def patched(api: ScriptedApi) -> list[str]:
    return [path.split("/")[6].split("?")[0] for path in api.paths("patch")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_pod_is_lost_or_stuck_while_the_lease_lapses_and_comes_back(
    api: ScriptedApi, clock: SkippingTime, kubeconfig: Path, seed: int
) -> None:
    rng = random.Random(seed)
    names = [f"p{number:03}" for number in range(200)]
    for number, name in enumerate(names):
        api.put_gated_pod(name, [GATE], priority=-number)
    lapses = 0
    away_s = (0.0, 0.0)

    def lapse(request: Request) -> bool:
        return away_s[0] <= clock.now_s < away_s[1] and lost_request(request)

    api.fail("lease", *[lapse] * 100_000)
    bound: list[str] = []
    with running(queue_configuration(kubeconfig)):
        while len(bound) < len(names):
            if clock.now_s > away_s[1] + LAPSE_EVERY_S:
                begins_s = clock.now_s + rng.uniform(0.0, 6.0)
                away_s = begins_s, begins_s + rng.uniform(10.0, LONGEST_LAPSE_S)
                lapses += 1
            # A Lease that nobody renews is taken again after its 15 seconds, or once it is back.
            clock.until(api.released_pods, within_s=LONGEST_LAPSE_S + 20.0)
            (name,) = api.released_pods()
            clock.pass_s(rng.uniform(0.0, 3.0))
            api.bind_pod(name)
            bound.append(name)
    assert lapses >= 5
    # A pod is released once, in its turn; kube-scheduler has one of them at a time.
    assert bound == patched(api) == names


class Closed:
    """A PreEnqueue plugin that lets pods pass once it is opened; it hangs until ``goes_on``."""

    name = "Closed"
    opened: bool
    goes_on: threading.Event

    def pre_enqueue(self, pod: core.Pod) -> Status | None:
        del pod
        if not self.goes_on.is_set():
            self.goes_on.wait()
        return None if self.opened else Status.pending("closed")


@pytest.fixture
def closed(kubeconfig: Path) -> AbstractContextManager[Running]:
    """A kubextend with the plugin ``Closed``, which does not hang."""
    Closed.opened, Closed.goes_on = False, threading.Event()
    Closed.goes_on.set()
    return running(queue_configuration(kubeconfig, "Closed"), {"Closed": Closed})


def test_time_alone_leads_to_the_release_of_a_pod_that_a_plugin_held(
    api: ScriptedApi, clock: SkippingTime, closed: AbstractContextManager[Running]
) -> None:
    api.put_gated_pod("a", [GATE])
    with closed as replica:
        clock.until(lambda: replica.metric("queue_pods", state="held") == 1)
        clock.pass_s(20)
        assert patched(api) == []
        Closed.opened = True
        clock.until(api.released_pods, within_s=10.0)
    assert patched(api) == ["a"]


def test_a_plugin_that_hangs_in_the_queue_fails_the_liveness_probe_after_a_minute(
    api: ScriptedApi, clock: SkippingTime, closed: AbstractContextManager[Running]
) -> None:
    Closed.opened = True
    with closed as replica:
        clock.until(lambda: replica.metric("queue_leader") == 1)
        Closed.goes_on.clear()
        api.put_gated_pod("a", [GATE])
        clock.pass_s(59)
        assert alive(replica)[0] == 200
        clock.pass_s(2)
        status, text = alive(replica)
        assert status != 200
        assert "the queue is stuck in a plugin's less or pre_enqueue for 6" in text
        Closed.goes_on.set()
        clock.until(api.released_pods)
        assert alive(replica)[0] == 200


def test_a_queue_that_has_nothing_to_do_for_minutes_passes_the_liveness_probe(
    clock: SkippingTime, kubeconfig: Path
) -> None:
    with running(queue_configuration(kubeconfig)) as replica:
        clock.until(lambda: replica.metric("queue_leader") == 1)
        clock.pass_s(200)
        assert alive(replica)[0] == 200


def test_a_stop_takes_seconds_while_a_plugin_hangs_and_releases_nothing_after_it(
    api: ScriptedApi, clock: SkippingTime, closed: AbstractContextManager[Running]
) -> None:
    Closed.opened = True
    api.put_gated_pod("a", [GATE])
    Closed.goes_on.clear()
    with closed as replica:
        clock.until(lambda: replica.metric("queue_leader") == 1)
        stopped_s = clock.now_s
    assert clock.now_s - stopped_s <= 10.0
    Closed.goes_on.set()
    clock.settle()
    assert patched(api) == []
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""


class Counts:
    """A Filter plugin that reads pods."""

    name = "Counts"
    needs_pods = True

    def filter(self, *_: object) -> None:
        """Let every pod pass."""


def in_pod(
    name: str, api: ScriptedApi, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return the configuration of a replica in a pod, with one Lease for verbs and queue."""
    monkeypatch.setenv("POD_NAMESPACE", "default")
    monkeypatch.setenv("POD_NAME", name)
    api.put_pod(name, f"uid-{name}", node="n1", phase="Running")
    api.put_node("n1")
    tree = queue_configuration(kubeconfig) | {"server": {"lease": {}}}
    tree["profiles"][0]["plugins"]["filter"] = {"enabled": [{"name": "Counts"}]}
    return tree


def test_the_leader_releases_pods_by_the_one_lease_and_the_one_watch_of_pods(
    api: ScriptedApi, clock: SkippingTime, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = in_pod("first", api, kubeconfig, monkeypatch)
    for name in ("a", "b", "c"):
        api.put_gated_pod(name, [GATE])
    with running(tree, {"Counts": Counts}) as replica:
        for name in ("a", "b"):
            clock.until(lambda name=name: name in api.released_pods())
            assert api.released_pods() == [name]
            if name == "a":
                api.bind_pod(name)
        clock.until(lambda: replica.metric("leader") == 1)
        assert replica.metric("queue_leader") == 1
        assert sum("/pods?" in path for path in api.paths("list")) == 1
        assert {path.split("/")[-1] for path in api.paths("lease")} == {"leases", "kubextend"}
        # A replica that resigns begins nothing new.
        replica.resign()
        api.bind_pod("b")
        clock.pass_s(5)
        assert replica.metric("queue_leader") == 0
    assert "c" not in patched(api)
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""


def test_an_idle_follower_costs_the_api_less_than_seven_requests_in_ten_seconds(
    api: ScriptedApi, clock: SkippingTime, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = in_pod("second", api, kubeconfig, monkeypatch)
    api.lease = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "first"}}
    with running(tree, {"Counts": Counts}) as replica:
        clock.pass_s(10)
        began = len(api.requests)
        for _ in range(60):
            api.change_lease(leaseDurationSeconds=15, renewTime=str(clock.now_s))
            clock.pass_s(5)
        assert replica.metric("leader") == 0
        # The pauses of this time are 2 s, the longest; the mean of a Lease's is 1.75 s.
        assert (len(api.requests) - began) / 300 * 2 / 1.75 <= 0.7
