"""Many notices make few calls, and no notice is without a call after it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kubextend.cluster import debounce as debounce_module
from kubextend.cluster.debounce import Debounce

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

    debounce = Debounce(tell, "debounce")
    debounce.start()
    noticed = 1
    debounce.notify()
    assert entered.acquire(timeout=PATIENCE_S)
    noticed = 2
    for _ in range(300):
        debounce.notify()
    go_on.release()
    assert entered.acquire(timeout=PATIENCE_S)
    noticed = 3
    debounce.notify()
    go_on.release()
    assert entered.acquire(timeout=PATIENCE_S)
    go_on.release()
    debounce.stop()
    assert told == [1, 2, 3]


def test_a_notice_after_the_stop_makes_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debounce_module, "JOIN_S", PATIENCE_S)
    told: list[None] = []
    debounce = Debounce(lambda: told.append(None), "debounce")
    debounce.start()
    debounce.stop()
    assert not debounce._thread.is_alive()
    debounce.notify()
    assert told == []
