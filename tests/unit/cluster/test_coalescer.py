"""Many notices make few calls, and no notice is without a call after it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kubextend.cluster import coalescer as coalescer_module
from kubextend.cluster.coalescer import Coalescer

if TYPE_CHECKING:
    import pytest

PATIENCE_S = 30.0


def test_notices_that_come_while_a_call_runs_share_the_next_one() -> None:
    told: list[int] = []
    entered = threading.Semaphore(0)
    go_on = threading.Semaphore(0)

    def tell() -> None:
        told.append(noticed)
        entered.release()
        assert go_on.acquire(timeout=PATIENCE_S)

    coalescer = Coalescer(tell, "coalescer")
    coalescer.start()
    noticed = 1
    coalescer.notify()
    assert entered.acquire(timeout=PATIENCE_S)
    noticed = 2
    for _ in range(300):
        coalescer.notify()
    go_on.release()
    assert entered.acquire(timeout=PATIENCE_S)
    noticed = 3
    coalescer.notify()
    go_on.release()
    assert entered.acquire(timeout=PATIENCE_S)
    go_on.release()
    coalescer.stop()
    assert told == [1, 2, 3]


def test_a_notice_after_the_stop_makes_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalescer_module, "JOIN_S", PATIENCE_S)
    told: list[None] = []
    coalescer = Coalescer(lambda: told.append(None), "coalescer")
    coalescer.start()
    coalescer.stop()
    assert not coalescer._thread.is_alive()
    coalescer.notify()
    assert told == []
