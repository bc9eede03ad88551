"""How long is waited between two attempts to take a gate off; no time passes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from kubextend.cluster import Fate, RefusedError, Ungater, UnreachableError
from kubextend.cluster.call import Call
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
        ([AWAY] * 7, [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5], Fate.RELEASED),
        ([refused(429, 2.0)] * 6, [2, 2, 2, 2, 3.2, 5], Fate.RELEASED),
        ([refused(503, 30.0), AWAY], [30, 0.4], Fate.RELEASED),
        ([refused(403)] * 5, [0.2, 0.4, 0.8, 1.6, 3.2], Fate.RELEASED),
        ([refused(403)] * 6, [0.2, 0.4, 0.8, 1.6, 3.2], Fate.REFUSED),
        ([refused(403, 9.0), refused(404)], [9], Fate.GONE),
    ],
    ids=["away", "too many", "starting up", "forbidden for a while", "forbidden", "gone at last"],
)
def test_attempts_are_made_ever_more_slowly_and_no_sooner_than_asked(
    failures: list[Exception], waits: list[float], fate: Fate
) -> None:
    waited: list[float] = []
    fates: list[Fate] = []

    def told(_pod: Pod, became: Fate, _why: str) -> None:
        fates.append(became)

    api = cast("Cluster", Api(failures))
    ungater = Ungater(api, "gate", at_once=1, may=lambda: True, told=told, wait=waited.append)
    pod = PodStore().apply(POD).pod
    assert pod is not None
    ungater.release(pod)
    ungater.finish()
    assert waited == pytest.approx(waits)
    assert fates == [fate]


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
        first_pause_s=PATIENCE_S,
    )
    pod = PodStore().apply(POD).pod
    assert pod is not None
    ungater.release(pod)
    assert tried.wait(PATIENCE_S)
    ungater.stop()
    assert fates == [Fate.RETURNED]
