"""Calls that are waited for only so long, and what becomes of those that nobody waits for."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from kubextend.profile import PluginLimits
from kubextend.profile.breaker import PluginHealth
from kubextend.profile.run_in_progress import Run, current_run
from kubextend.profile.threads import Threads
from kubextend.profile.time_limited_calls import _told_of
from skipping_loop import AT_MOST_S, run, skip, until

HUNG = PluginHealth(open=True, stuck_threads=1)
LEFT = PluginHealth(open=False, stuck_threads=1)


class Plugin:
    """A call of plugin P that hangs until the test lets it go."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.limits = PluginLimits(lambda: 0.0)
        self.limits._verb_threads = Threads(1, "verb")
        self.limits.breakers.add("P")

    def call(self) -> None:
        if (of := current_run()) is not None:
            of.begin_call("P", "Filter")
        self.began.set()
        assert self.go.wait(AT_MOST_S)

    async def begin(self) -> None:
        assert await asyncio.to_thread(self.began.wait, AT_MOST_S)

    @property
    def health(self) -> PluginHealth:
        return self.limits.breakers.health()["P"]


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    made = Plugin()
    yield made
    made.go.set()
    made.limits.stop()


async def withdrawn(call: "asyncio.Task[Any]") -> None:
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def test_work_that_nobody_wants_any_more_does_not_begin(plugin: Plugin) -> None:
    done: list[str] = []

    async def scenario() -> None:
        limits = plugin.limits
        hanging = limits.start(partial(Run.enter, work=plugin.call))
        await plugin.begin()
        asked = asyncio.ensure_future(limits.within_async(600, lambda: done.append("unwanted")))
        await asyncio.sleep(0)
        await withdrawn(asked)
        plugin.go.set()
        await limits.within_async(AT_MOST_S, lambda: done.append("wanted"))
        assert hanging.job.future.done()

    run(scenario())
    assert done == ["wanted"]


def test_a_call_that_hangs_is_given_up_in_time_though_its_client_is_gone(plugin: Plugin) -> None:
    async def scenario() -> None:
        asked = asyncio.ensure_future(plugin.limits.within_async(600, plugin.call))
        await plugin.begin()
        await withdrawn(asked)
        assert plugin.health == PluginHealth(open=False, stuck_threads=0)
        await skip(601)
        assert plugin.health == HUNG

    run(scenario())


def test_a_call_that_comes_back_after_its_client_left_is_blamed_for_nothing(
    plugin: Plugin,
) -> None:
    async def scenario() -> None:
        asked = asyncio.ensure_future(plugin.limits.within_async(600, plugin.call))
        await plugin.begin()
        await withdrawn(asked)
        plugin.go.set()
        await plugin.limits.within_async(AT_MOST_S, list)
        await skip(601)

    run(scenario())
    assert plugin.health == PluginHealth(open=False, stuck_threads=0)


def binding_call(plugin: Plugin, deadline_s: float | None) -> "asyncio.Task[None]":
    return asyncio.ensure_future(plugin.limits.binding_call("P", deadline_s, plugin.call))


def test_a_binding_call_whose_time_is_over_holds_a_thread_until_it_comes_back(
    plugin: Plugin,
) -> None:
    async def scenario() -> None:
        call = binding_call(plugin, time.monotonic())
        await plugin.begin()
        await withdrawn(call)
        # Whoever waited for it in vain has blamed it already.
        assert plugin.health == LEFT
        plugin.go.set()
        await until(lambda: not plugin.health.stuck_threads)

    run(scenario())


def test_a_binding_call_whose_client_is_gone_is_blamed_when_its_time_is_over(
    plugin: Plugin,
) -> None:
    async def scenario() -> None:
        call = binding_call(plugin, time.monotonic() + 600)
        await plugin.begin()
        await withdrawn(call)
        assert plugin.health == PluginHealth(open=False, stuck_threads=0)
        await skip(601)
        assert plugin.health == HUNG

    run(scenario())


def test_a_binding_call_without_a_deadline_may_take_for_ever(plugin: Plugin) -> None:
    async def scenario() -> None:
        call = binding_call(plugin, None)
        await plugin.begin()
        await withdrawn(call)
        await skip(1e6)

    run(scenario())
    assert plugin.health == PluginHealth(open=False, stuck_threads=0)


def test_a_thread_that_is_done_wakes_the_event_loop_and_changes_nothing_of_it_by_itself() -> None:
    async def scenario() -> None:
        brought: Future[None] = Future()
        told = _told_of(brought)
        thread = threading.Thread(target=brought.set_result, args=[None])
        thread.start()
        # The loop stands still meanwhile.
        thread.join()
        assert not told.done()
        await told

    run(scenario())
