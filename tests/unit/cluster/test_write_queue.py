"""Which calls of a queue of writes are made, and in which order, on a clock that the test turns."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from types import NoneType
from typing import TYPE_CHECKING, cast

import pytest

from kubextend.cluster import UnreachableError, write_queue
from kubextend.cluster.api_call import Call, RefusedError
from kubextend.cluster.write_queue import TokenBucket, WaitingWrites, Write, WriteQueue

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator

    from kubextend.cluster.client import Cluster

PATIENCE_S = 30.0


class Noting(WaitingWrites):
    """Notes each look that found no call to make, while nobody can put another."""

    def __init__(
        self,
        bucket: TokenBucket,
        interval_s: float,
        clock: Callable[[], float],
        found: SimpleQueue[float | None],
    ) -> None:
        super().__init__(bucket, interval_s, clock)
        self._found = found

    def take(self) -> Write | float | None:
        found = super().take()
        if not isinstance(found, Write):
            self._found.put(found)
        return found


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds of which no event tells."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "did not come to hold in time"
        time.sleep(0.002)


class World:
    """A queue of writes, the API that it sends to, and the time.

    Attributes:
        now_s: the time.
        made: the calls that were made.
        does: what happens in the next call of a name.
        found: grows whenever the queue of writes finds no call that it may make now.
    """

    def __init__(self, interval_s: float, rate: float = 1000.0, burst: int = 1000) -> None:
        self.now_s = 1000.0
        self.made: list[str] = []
        self.does: dict[str, Callable[[], object]] = {}
        self.answered = threading.Condition()
        self.found: SimpleQueue[float | None] = SimpleQueue()
        self.queue = WriteQueue(
            cast("Cluster", self),
            Noting(TokenBucket(rate, burst, self.clock), interval_s, self.clock, self.found),
            name="writes",
            trouble="nothing is sent",
        )

    def clock(self) -> float:
        return self.now_s

    def request(self, call: Call) -> bytes:
        self.made.append(call.path)
        self.does.pop(call.path, lambda: None)()
        return b"{}"

    def put(self, key: str, name: str = "") -> None:
        self.queue.put(write(key, "ns", name))

    def until_found(self, kind: type) -> None:
        """The queue looked, and found that it has to pause, or that nothing waits."""
        while not isinstance(self.found.get(timeout=PATIENCE_S), kind):
            pass

    def until_made(self, count: int) -> None:
        """Wait until this number of calls was made."""
        until(lambda: len(self.made) >= count)

    def send(self, *keys: str) -> None:
        """Each is sent before the next one is put."""
        for key in keys:
            sent = self.queue.stats.sent
            self.put(key)
            until(lambda: key in self.made and self.queue.stats.sent != sent)  # noqa: B023  at once


def write(key: str, namespace: str, name: str = "") -> Write:
    return Write(key, lambda: Call("PATCH", name or key, 1.0), namespace, key, 0)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(interval_s=1.0)
    yield made
    made.queue.stop()


def test_a_call_that_failed_is_not_made_again_beside_a_newer_one_of_its_key(world: World) -> None:
    def fail() -> None:
        world.put("pod", "newer")
        reason = "reset"
        raise UnreachableError(Call("PATCH", "older", 1.0), reason)

    world.does["older"] = fail
    world.put("pod", "older")
    world.send("first")
    world.now_s += 100
    world.send("last")
    assert [name for name in world.made if name != "first"] == ["older", "newer", "last"]


def test_the_interval_of_a_key_is_kept_to_when_others_are_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "MAX_WAITING", 2)
    world.send("a", "b", "c")
    world.now_s += 0.5
    world.send("d")
    world.put("a")
    world.send("e")
    assert world.made == ["a", "b", "c", "d", "e"]
    world.now_s += 0.5
    world.send("f")
    assert world.made[5:] == ["a", "f"]
    # Nobody asks any more when these were sent.
    world.now_s += 10
    world.send("g")
    assert world.queue._writes._sent_at.keys() == {"g"}


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the queue of writes logged, and no thread of an earlier test."""
    return [record for record in caplog.records if record.name == write_queue.log.name]


def test_who_fills_the_queue_of_writes_keeps_nobody_out_and_the_log_names_what_is_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_queue, "MAX_WAITING", 3)
    go = threading.Event()
    world.does["first"] = go.wait
    world.put("first")
    world.until_made(1)
    for number in range(5):
        world.queue.put(write(f"greedy-{number}", "greedy"))
    world.queue.put(write("neighbour", "neighbours"))
    go.set()
    world.until_made(4)
    assert world.made == ["first", "neighbour", "greedy-0", "greedy-1"]
    assert world.queue.stats.dropped == 3
    assert [record.getMessage() for record in said(caplog)] == [
        "nothing is sent: 3 calls wait already; the first one dropped is about pod greedy/greedy-3"
    ]


def test_the_log_says_that_calls_are_dropped_once_until_none_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_queue, "MAX_WAITING", 2)
    world = World(1.0, rate=20.0, burst=1)
    try:
        for made, drops in ((0, 1), (3, 3)):
            go = threading.Event()
            world.does[f"holds-{made}"] = go.wait
            world.put(f"holds-{made}")
            world.until_made(made + 1)
            for number in range(3):
                world.put(f"{made}-{number}")
            go.set()
            # Two wait for the rate, and a further one is dropped with nothing more said of it.
            world.until_found(float)
            world.put(f"{made}-further")
            assert world.queue.stats.dropped == drops + 1
            assert len(said(caplog)) == (drops + 1) // 2
            for more in (2, 3):
                world.now_s += 1
                world.until_made(made + more)
            world.until_found(NoneType)
            world.now_s += 1
    finally:
        world.queue.stop()


def refuse(name: str, status: int) -> None:
    raise RefusedError(Call("PATCH", name, 1.0), status, "no")


def test_trouble_is_said_again_after_a_call_that_succeeded(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for number, name in enumerate(("first", "second"), 1):
        world.does[name] = partial(refuse, name, 403)
        world.put(name)
        until(lambda: world.queue.stats.failed >= number)  # noqa: B023  at once
        world.send(f"after-{name}")
    assert [record.getMessage() for record in said(caplog)] == [
        "nothing is sent: PATCH first: 403 no",
        "nothing is sent: PATCH second: 403 no",
    ]


class Pauses(WaitingWrites):
    """Notes the pause of each call."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(TokenBucket(1000.0, 1000, clock), 1.0, clock)
        self.pauses_s: list[float] = []
        self.last = write("pod", "ns")

    def put(self, write: Write, pause_s: float = 0.0) -> Write | None:
        self.pauses_s.append(pause_s)
        self.last = write
        return super().put(write, pause_s)


@pytest.mark.parametrize(
    ("asked_s", "pauses_s"),
    [
        (None, [1.0, 2.0, 4.0]),
        # A server that asks for a short pause does not ask for more calls.
        (1.5, [1.5, 2.0, 4.0]),
        (30.0, [30.0, 30.0, 30.0]),
    ],
)
def test_a_call_is_made_four_times_with_pauses_that_grow_or_that_the_api_asks_for(
    asked_s: float | None, pauses_s: list[float]
) -> None:
    waits = Pauses(Clock())
    queue = WriteQueue(cast("Cluster", None), waits, name="writes", trouble="nothing is sent")
    refusal = RefusedError(Call("PATCH", "pod", 1.0), 429, "busy", asked_s)
    waits.last = replace(waits.last, attempt=1)
    while not queue.stats.failed:
        queue._failed(waits.last, refusal)
    assert waits.pauses_s == pauses_s


class Clock:
    """The time, as a test sets it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def full_of_two(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> WaitingWrites:
    """WaitingWrites of which two may wait."""
    monkeypatch.setattr(write_queue, "MAX_WAITING", 2)
    return WaitingWrites(TokenBucket(1000.0, 1000, clock), 1.0, clock)


def taken(writes: WaitingWrites) -> list[str]:
    """The keys of all calls that are due."""
    keys = []
    while isinstance(found := writes.take(), Write):
        keys.append(found.key)
    return keys


def test_a_call_that_was_dropped_may_be_put_again(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = full_of_two(monkeypatch, Clock())
    dropped = [writes.put(write(key, "ns")) for key in ("a", "b", "c")]
    assert [each and each.key for each in dropped] == [None, None, "c"]
    assert taken(writes) == ["a", "b"]
    assert writes.put(write("c", "ns")) is None
    assert writes.put(write("d", "ns")) is None
    assert taken(writes) == ["c", "d"]


@pytest.mark.parametrize("pauses_s", [(5.0, 6.0, 7.0), (7.0, 6.0, 5.0), (6.0, 5.0, 7.0)])
def test_where_no_call_is_due_one_that_pauses_is_dropped_and_not_the_next(
    monkeypatch: pytest.MonkeyPatch, pauses_s: tuple[float, ...]
) -> None:
    clock = Clock()
    writes = full_of_two(monkeypatch, clock)
    dropped = [writes.put(write(f"{each}", "ns"), each) for each in pauses_s][-1]
    assert dropped is not None
    clock.now_s += max(pauses_s)
    left = taken(writes)
    assert left[0] == f"{min(pauses_s)}"
    assert sorted([*left, dropped.key]) == sorted(f"{each}" for each in pauses_s)
