"""Plugins that work in the background: started, tried again, waited for, told of."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kubextend.errors import PluginError
from kubextend.profile import PluginLimits, PluginStarts

SOON_S = 60.0
MOST_PAUSES = 6


class Starting:
    """Fails as often as it is told to, and starts after that."""

    def __init__(self, name: str, failures: int = 0) -> None:
        self.name = name
        self.failures = failures
        self.calls = 0

    def start(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            message = f"not yet: {self.calls}"
            raise RuntimeError(message)


class Background:
    """Has nothing to start."""

    name = "Plain"


def starts_of(
    *plugins: Any, deadline_s: float = SOON_S, on_started: Callable[[], object] = lambda: None
) -> tuple[PluginStarts, list[str], list[float]]:
    """The starts, what they tell, and how long they pause."""
    told: list[str] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        told.append(starts.why_not())
        if len(pauses) == MOST_PAUSES:
            raise asyncio.CancelledError

    def on_failure(error: PluginError, consequence: str) -> None:
        told.append(f"{consequence}: {error}")

    limits = PluginLimits(clock=lambda: sum(pauses))
    starts = PluginStarts(
        plugins, limits, on_failure, deadline_s=deadline_s, sleep=sleep, on_started=on_started
    )
    return starts, told, pauses


async def given_up(starts: PluginStarts) -> None:
    """The test has seen enough of starts that fail."""
    await asyncio.gather(starts.run(), return_exceptions=True)


def test_until_every_plugin_has_started_those_that_have_not_are_named() -> None:
    starts, told, _ = starts_of(Starting("A"), Background(), Starting("B"))
    assert starts.why_not() == ('plugin "A" has not started yet; plugin "B" has not started yet')
    asyncio.run(starts.run())
    assert (starts.why_not(), told) == ("", [])


def test_a_start_that_fails_is_told_and_tried_again_with_a_doubling_pause() -> None:
    plugin = Starting("A", failures=5)
    starts, told, pauses = starts_of(plugin)
    asyncio.run(starts.run())
    assert (plugin.calls, starts.why_not()) == (6, "")
    assert pauses == [5.0, 10.0, 20.0, 30.0, 30.0]
    assert told[:2] == [
        'kubextend is not ready: running "A" Start plugin: RuntimeError: not yet: 1',
        'plugin "A" does not start: RuntimeError: not yet: 1',
    ]


def test_a_start_that_hangs_is_given_up_and_tried_again_when_its_breaker_allows() -> None:
    go_on, begun = threading.Event(), threading.Event()

    class Hangs(Starting):
        def start(self) -> None:
            begun.set()
            assert go_on.wait(SOON_S)

    starts, told, _ = starts_of(Hangs("A"), deadline_s=0.01)
    asyncio.run(given_up(starts))
    assert begun.is_set()
    assert told[:2] == [
        'kubextend is not ready: running "A" Start plugin: has not answered in time',
        'plugin "A" does not start: has not answered in time',
    ]
    # While it is uncalled, why it is so stays to be read.
    assert told[3] == told[5] == told[1]
    go_on.set()


class Later(Starting):
    """Starts on the event loop, as often as it is told to fail before."""

    loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:  # type: ignore[override]
        self.loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        super().start()


def test_an_async_start_is_awaited_on_the_event_loop_and_repeated_if_it_fails() -> None:
    plugin = Later("A", failures=2)
    starts, told, pauses = starts_of(plugin)

    async def run() -> None:
        await starts.run()
        assert plugin.loop is asyncio.get_running_loop()

    asyncio.run(run())
    assert (plugin.calls, starts.why_not(), pauses) == (3, "", [5.0, 10.0])
    assert told[0] == ('kubextend is not ready: running "A" Start plugin: RuntimeError: not yet: 1')


def test_an_async_start_that_hangs_is_given_up() -> None:
    class Hangs(Starting):
        async def start(self) -> None:  # type: ignore[override]
            await asyncio.Event().wait()

    starts, told, _ = starts_of(Hangs("A"), deadline_s=0.01)
    asyncio.run(given_up(starts))
    assert told[0] == 'kubextend is not ready: running "A" Start plugin: has not answered in time'


def test_a_coroutine_that_a_plain_start_returns_is_awaited_by_nobody() -> None:
    plugin = Later("A")
    wrapped = type("Wrapped", (), {"name": "A", "start": lambda _self: plugin.start()})()
    starts, _, _ = starts_of(wrapped)
    asyncio.run(given_up(starts))
    assert plugin.calls == 0
    assert starts.why_not() == (
        'plugin "A" does not start: TypeError: answered a coroutine where None is expected; only'
        " start, stop, reserve, unreserve, permit, preBind, bind and postBind may be async"
    )


REFUSED_THREAD = RuntimeError("can't start new thread")


def test_a_start_whose_handlers_cannot_begin_is_repeated_and_other_plugins_start() -> None:
    refused: list[str] = []

    def begin_handlers() -> None:
        if "A" not in starts.names() and not refused:
            refused.append("A")
            raise REFUSED_THREAD

    first, other = Starting("A"), Starting("B")
    starts, told, pauses = starts_of(first, other, on_started=begin_handlers)
    asyncio.run(starts.run())
    # What has started is not started a second time.
    assert (first.calls, other.calls, pauses) == (1, 1, [5.0])
    assert told[0] == (
        'kubextend is not ready: running "A" Start plugin: RuntimeError: can\'t start new thread'
    )
    assert 'plugin "A" does not start: RuntimeError: can\'t start new thread' in told[1]
    assert starts.why_not() == ""


def test_a_start_for_which_the_system_has_no_thread_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first start waits for a thread until its deadline, and the next one has time enough."""
    plugin = Starting("A")
    starts, told, pauses = starts_of(plugin, deadline_s=0.01)
    start_thread = threading.Thread.start

    def start_unless_first(thread: threading.Thread) -> None:
        if thread.name == "kubextend-verb" and not told:
            starts._deadline_s = SOON_S
            raise REFUSED_THREAD
        start_thread(thread)

    monkeypatch.setattr(threading.Thread, "start", start_unless_first)
    asyncio.run(starts.run())
    assert (plugin.calls, pauses, starts.why_not()) == (1, [5.0], "")
