"""How long is waited between two attempts to take a gate off; no time passes."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kubextend.cluster import Fate, RefusedError, Ungater, UnreachableError, ungate, ungater
from kubextend.cluster.api_call import Call
from kubextend.cluster.ungater import Pauses
from kubextend.core import PodStore

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

PATIENCE_S = 30.0
CALL = Call("PATCH", "/", 1.0)
AWAY = UnreachableError(CALL, "reset")
POD = b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"ml","uid":"u"}}}'


def refused(status: int, retry_after_s: float | None = None) -> RefusedError:
    return RefusedError(CALL, status, "no", retry_after_s)


class Api:
    """Fails as it is told, then takes the patch."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures = list(failures)

    def request(self, _: Call) -> bytes:
        if self.failures:
            raise self.failures.pop(0)
        return b"{}"


@pytest.mark.parametrize(
    ("failures", "waits", "fate"),
    [
        ([AWAY] * 6, [0.2, 0.4, 0.8, 1.6, 2, 2], Fate.RELEASED),
        ([AWAY] * 12, [0.2, 0.4, 0.8, 1.6, 2, 2, 2, 2, 2, 2], Fate.REFUSED),
        ([refused(429, 3.0)] * 5, [3, 3, 3, 3, 3], Fate.RELEASED),
        ([refused(503, 30.0)], [15], Fate.RELEASED),
        ([refused(504)] * 12, [0.2, 0.4, 0.8, 1.6, 2, 2, 2, 2, 2, 2], Fate.REFUSED),
        ([refused(403)] * 5, [0.2, 0.4, 0.8, 1.6, 2], Fate.RELEASED),
        ([refused(500)] * 6, [0.2, 0.4, 0.8, 1.6, 2], Fate.REFUSED),
        ([refused(403)] * 6, [0.2, 0.4, 0.8, 1.6, 2], Fate.REFUSED),
        ([refused(403, 9.0), refused(404)], [9], Fate.GONE),
    ],
    ids=[
        "away",
        "away for this pod",
        "too many",
        "starting up",
        "no answer for this pod",
        "forbidden for a while",
        "too large for etcd",
        "forbidden",
        "gone at last",
    ],
)
def test_attempts_are_made_ever_more_slowly_and_no_sooner_than_asked(
    failures: list[Exception], waits: list[float], fate: Fate
) -> None:
    world = Ungating(failures)
    assert world.release() is fate
    assert world.waited == pytest.approx(waits)
    # The first refusal that is about the pod is told at once; the API's own trouble is not.
    about_the_pod = failures[0].status in {403, 500} if failures[0] is not AWAY else False  # type: ignore[attr-defined]
    assert world.refused_once == about_the_pod


def test_another_pod_is_patched_while_one_that_was_refused_is_tried_again() -> None:
    other_is_free = threading.Event()
    fates: list[tuple[str, Fate]] = []

    class Refusing:
        def request(self, call: Call) -> bytes:
            if "/pods/a" in call.path:
                raise refused(500)
            return b"{}"

    def told(pod: Pod, fate: Fate, _why: str) -> None:
        fates.append((pod.name, fate))
        if pod.name == "b":
            other_is_free.set()

    ungater = Ungater(
        cast("Cluster", Refusing()),
        "gate",
        at_once=1,
        may=lambda: True,
        told=told,
        # The refused pod waits until the other is free.
        pauses=Pauses(clock=lambda: 0.0, wait=lambda _: other_is_free.wait(PATIENCE_S)),
    )
    for name in (b"a", b"b"):
        pod = PodStore().apply(POD.replace(b'"name":"a"', b'"name":"%b"' % name)).pod
        assert pod is not None
        ungater.release(pod)
    ungater.finish()
    assert fates == [("a", Fate.REFUSED_ONCE), ("b", Fate.RELEASED), ("a", Fate.REFUSED)]


def test_stop_ends_the_wait_for_the_next_attempt() -> None:
    tried = threading.Event()
    fates: list[Fate] = []

    class Failing(Api):
        def request(self, call: Call) -> bytes:
            tried.set()
            return super().request(call)

    ungater = Ungater(
        cast("Cluster", Failing([AWAY])),
        "gate",
        at_once=1,
        may=lambda: True,
        told=lambda _pod, fate, _why: fates.append(fate),
        pauses=Pauses(first_s=PATIENCE_S),
    )
    pod = PodStore().apply(POD).pod
    assert pod is not None
    ungater.release(pod)
    assert tried.wait(PATIENCE_S)
    ungater.stop()
    assert fates == [Fate.RETURNED]


@pytest.mark.parametrize(
    ("away_s", "fate", "until_s"),
    [(100.0, Fate.RELEASED, 102.0), (1000.0, Fate.RETURNED, 120.0)],
)
def test_who_takes_off_gates_at_once_waits_for_the_api_as_long_as_asked(
    away_s: float, fate: Fate, until_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    class Away:
        def request(self, _: Call) -> bytes:
            if now_s < away_s:
                raise AWAY
            return b"{}"

    def wait(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    def clock() -> float:
        return now_s

    monkeypatch.setattr(ungater, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(ungater, "Pauses", partial(Pauses, clock=clock, wait=wait))
    pod = PodStore().apply(POD).pod
    assert pod is not None
    fates = ungate(cast("Cluster", Away()), "gate", [pod], timeout_s=120.0)
    assert [found for _, found, _ in fates] == [fate]
    assert until_s - 2.0 < now_s <= until_s


LARGE = POD.replace(b'"uid":"u"', b'"uid":"u","annotations":{"a":"%b"}' % (b"x" * 1000))


@pytest.mark.parametrize("failure", [AWAY, refused(429, 3.0), refused(503), refused(504)])
def test_a_large_pod_for_which_the_api_does_not_answer_has_one_attempt(failure: Exception) -> None:
    """The API may be busy with the first attempt for long after it was given up."""
    world = Ungating([failure] * 5, LARGE)
    assert world.release() is Fate.REFUSED
    assert world.waited == []


@pytest.mark.parametrize("status", [403, 422, 500])
def test_pods_that_can_never_be_patched_hold_up_the_others_for_five_seconds_in_all(
    status: int,
) -> None:
    world = Ungating([refused(status)] * 1000)
    assert [world.release() for _ in range(50)] == [Fate.REFUSED] * 50
    assert sum(world.waited) == pytest.approx(5.0, abs=0.3)
    world.now_s += 300
    world.waited.clear()
    assert world.release() is Fate.REFUSED
    assert sum(world.waited) == pytest.approx(5.0)


class Ungating:
    """An ungater of one pod at a time; time passes while it waits."""

    def __init__(self, failures: list[Exception], event: bytes = POD) -> None:
        self.now_s = 0.0
        self._event = event
        self.waited: list[float] = []
        self.refused_once = 0
        self._fates: list[Fate] = []
        self._api = cast("Cluster", Api(failures))
        self._told = threading.Event()
        self._ungater = Ungater(
            self._api,
            "gate",
            at_once=1,
            may=lambda: True,
            told=self._hear,
            pauses=Pauses(clock=lambda: self.now_s, wait=self._wait),
        )

    def release(self) -> Fate:
        """What becomes of a pod."""
        pod = PodStore(max_pod_bytes=500).apply(self._event).pod
        assert pod is not None
        self._told.clear()
        self._ungater.release(pod)
        assert self._told.wait(30)
        return self._fates[-1]

    def _hear(self, _pod: Pod, became: Fate, _why: str) -> None:
        if became is Fate.REFUSED_ONCE:
            self.refused_once += 1
            return
        self._fates.append(became)
        self._told.set()

    def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now_s += seconds
