"""A pod that Permit holds: who holds it, until when, and who may still decide."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from profile_world import request

from kubextend.framework.status import Status
from kubextend.profile import WaitingPod, WaitingPods
from kubextend.testing import pod_manifest
from kubextend.testing.objects import pod_of
from skipping_loop import run as run_skipping
from skipping_loop import skip

_T = TypeVar("_T")


def in_loop(scenario: Callable[[WaitingPod], _T], **waits_s: float) -> _T:
    """What a scenario returns that is given a pod which these plugins hold so long."""

    async def run() -> _T:
        waiting = WaitingPod(request("n")[0], "n", waits_s)
        try:
            return scenario(waiting)
        finally:
            waiting.end()

    return asyncio.run(run())


def test_the_deadline_is_that_of_the_first_plugin_that_still_holds_it() -> None:
    def scenario(waiting: WaitingPod) -> list[float | None]:
        deadlines = []
        for plugin in ("none", "A", "C", "B"):
            waiting.allow(plugin)
            deadline_s = waiting.deadline_s
            deadlines.append(None if deadline_s is None else deadline_s - waiting.since_s)
        return deadlines

    began_s = time.time()
    assert in_loop(scenario, A=30, B=600, C=60) == [30, 60, 600, None]
    assert began_s <= in_loop(lambda waiting: waiting.since_s, A=1) <= time.time()


def test_who_allows_is_told_whether_that_plugin_held_it() -> None:
    def scenario(waiting: WaitingPod) -> list[bool]:
        return [waiting.allow(plugin) for plugin in ("B", "A", "A", "C", "C")]

    assert in_loop(scenario, A=60, C=60) == [False, True, False, True, False]


def test_what_is_decided_stays_decided() -> None:
    def allowed(waiting: WaitingPod) -> list[bool]:
        return [waiting.allow("A"), waiting.reject("", "no"), waiting.allow("A")]

    def rejected(waiting: WaitingPod) -> list[bool]:
        return [waiting.reject("", "no"), waiting.allow("A"), waiting.reject("", "no")]

    assert in_loop(allowed, A=60) == [True, False, False]
    assert in_loop(rejected, A=60) == [True, False, False]
    assert in_loop(lambda waiting: (waiting.end(), waiting.deadline_s)[1], A=60) is None


def test_a_plugin_that_allowed_it_in_time_does_not_reject_it_by_its_timeout() -> None:
    async def run() -> Status:
        waiting = WaitingPod(request("n")[0], "n", {"A": 20, "B": 60})
        asyncio.get_running_loop().call_later(10, waiting.allow, "A")
        # The loop is held up until A's time is over: its timer is due when it is allowed.
        await skip(30)
        waiting.allow("B")
        return await waiting.wait()

    assert run_skipping(run()) == Status.success()


def test_a_wait_that_ends_leaves_a_newer_one_of_its_pod_where_it_is_found() -> None:
    async def run() -> None:
        pods, of = WaitingPods(), request("n")[0]
        ended: list[WaitingPod] = []
        pods.tell(lambda _: None, ended.append)
        older, newer = WaitingPod(of, "n", {"A": 60}), WaitingPod(of, "m", {"A": 60})
        pods.add(older)
        pods.add(newer)
        pods.remove(older)
        assert pods.get(of.uid) is newer
        assert ended == []
        pods.remove(newer)
        assert ended == [newer]
        assert pods.get(of.uid) is None
        older.end()
        newer.end()

    asyncio.run(run())


class Holding:
    """Waiting pods by name and namespace, on a loop of the test."""

    def __init__(self, pods: WaitingPods) -> None:
        self.pods = pods
        self.told: list[str] = []
        pods.tell(lambda waiting: self.told.append(waiting.pod.name))

    def add(self, name: str, namespace: str = "a") -> WaitingPod:
        pod = pod_of(pod_manifest(name, uid=name, namespace=namespace))
        waiting = WaitingPod(pod, "n", {"A": 60})
        self.pods.add(waiting)
        return waiting


async def reason_of(waiting: WaitingPod) -> str:
    return (await waiting.wait()).reason


def test_no_more_pods_are_held_than_may_be_and_the_next_is_when_one_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        held = Holding(WaitingPods(60, 3, 2))
        first = held.add("a1")
        held.add("a2")
        full = "2 pods of this namespace wait already, as extender.maxHeldPodsPerNamespace allows"
        refused = held.add("a3")
        # The pod does not count for its gang, although its Unreserve has not begun.
        assert held.pods.gives_up("a3")
        assert await reason_of(refused) == full
        with held.pods.unreserving("a3"):
            assert held.pods.gives_up("a3")
        assert not held.pods.gives_up("a3")
        # Its end frees no place, for it had none.
        held.pods.remove(refused)
        assert await reason_of(held.add("a4")) == full
        held.add("b1", "b")
        full = "3 pods wait already, as extender.maxHeldPods allows"
        assert await reason_of(held.add("c1", "c")) == full
        # A newer wait of a held pod takes its place.
        again = held.add("a1")
        held.pods.remove(first)
        assert held.pods.get("a1") is again
        held.pods.remove(again)
        held.add("a5")
        assert held.told == ["a1", "a2", "b1", "a1", "a5"]
        assert len(held.pods) == 3

    asyncio.run(run())
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "pod a/a3 cannot be held"
    ]


def test_a_full_room_is_said_once_until_a_held_pod_leaves(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        held = Holding(WaitingPods(60, 1))
        for name in ("a", "b"):
            first = held.add(f"{name}1")
            for number in (2, 3):
                await reason_of(held.add(f"{name}{number}"))
            held.pods.remove(first)
            first.end()

    asyncio.run(run())
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "pod a/a2 cannot be held",
        "pod a/b2 cannot be held",
    ]


def test_who_comes_while_it_is_closing_is_sent_back_and_nobody_is_told() -> None:
    async def run() -> None:
        held = Holding(WaitingPods())
        before = held.add("before")
        held.pods.close("it ends")
        assert await reason_of(before) == "it ends"
        assert await reason_of(held.add("after")) == "it ends"
        assert held.told == ["before"]

    asyncio.run(run())


@pytest.mark.parametrize(("asked_s", "most_s"), [(60, 60), (900, 900), (901, 900)])
def test_nobody_is_held_longer_than_kube_scheduler_would(asked_s: float, most_s: float) -> None:
    assert WaitingPods(asked_s).max_wait_s == most_s
