"""A process that ends, hangs or cannot be made: what is answered, and what is left."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from isolation_world import (
    SOON_S,
    Diary,
    DiaryArgs,
    Dies,
    NeverStarts,
    StartsForEver,
    Unmade,
    UnmadeAndGone,
    full,
    isolated,
    node,
    pid_of,
    pod,
    profile_with,
    read,
    until,
)

from kubextend.errors import KubextendError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.profile import PluginLimits, Profile, Profiles
from kubextend.profile.isolation import IsolatedPlugin, process
from kubextend.profile.isolation.process import ChildError
from kubextend.verbs import Verbs
from make_verbs import make_verbs
from skipping_loop import now, run, skip
from skipping_loop import until as skip_until

NODES = [node("n0"), node("n1", "b")]
# Nobody waits for it: the tests skip it while a call hangs.
TIMEOUT_S = 600.0


def ends(pid: int) -> bool:
    """Whether a process ends soon, or has."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], SOON_S)[0])
    finally:
        os.close(watched)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a process ended is known whenever its end comes."""
    monkeypatch.setattr(process, "_REAP_TIMEOUT_S", SOON_S)


@pytest.fixture
def dies() -> Iterator[IsolatedPlugin]:
    with isolated(Dies) as plugin:
        yield plugin


def filtered(plugin: IsolatedPlugin, then: str = "") -> list[int]:
    """Which nodes the plugin keeps."""
    of, nodes = read(full(NODES, pod(then=then)))
    outcome = profile_with(plugin, Dies).run_filter_plugins(CycleState(), of, nodes)
    return outcome.kept.indices()


@pytest.mark.parametrize(
    ("then", "how"),
    [
        ("exit", "its process ended with exit code 7"),
        ("segfault", "its process was ended by SIGSEGV"),
        ("abort", "its process was ended by SIGABRT"),
    ],
)
def test_a_process_that_ends_fails_its_call_and_another_serves_the_next(
    dies: IsolatedPlugin, then: str, how: str
) -> None:
    first = pid_of(dies)
    with pytest.raises(PluginError) as raised:
        filtered(dies, then)
    assert (raised.value.plugin, raised.value.extension_point) == ("Dies", "Filter")
    assert raised.value.message == how
    assert filtered(dies) == [0]
    assert pid_of(dies) != first


def test_a_process_that_loses_its_way_to_us_is_ended(dies: IsolatedPlugin) -> None:
    first = pid_of(dies)
    with pytest.raises(PluginError):
        filtered(dies, "close")
    assert ends(first)
    assert filtered(dies) == [0]


class Pauses(threading.Event):
    """Ends no pause before the test says that it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []
        self.over = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        if timeout:
            assert self.over.wait(SOON_S)
        return self.is_set()


def test_one_that_keeps_ending_is_started_after_a_pause(dies: IsolatedPlugin) -> None:
    pauses = dies._supervisor._stopped = Pauses()
    for _ in range(2):
        with pytest.raises(PluginError, match="exit code 7"):
            filtered(dies, "exit")
    with pytest.raises(PluginError, match="not started again yet"):
        filtered(dies)
    until(lambda: pauses.seconds == [0, 1])
    pauses.over.set()

    def serves_again() -> bool:
        try:
            return filtered(dies) == [0]
        except PluginError:
            return False

    until(serves_again)


def test_calls_of_many_threads_take_turns(dies: IsolatedPlugin) -> None:
    limits = PluginLimits()

    async def ask(number: int) -> list[int]:
        then = "exit" if number == 20 else ""
        return await limits.within_async(SOON_S, lambda: filtered(dies, then))

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*map(ask, range(40)), return_exceptions=True)

    answers = asyncio.run(ask_all())
    limits.stop()
    assert isinstance(answers.pop(20), PluginError)
    assert answers == [[0]] * 39


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def verbs_with(plugin: IsolatedPlugin, clock: Clock, *, ignored: bool = False) -> Verbs:
    profile = Profile(
        "default-scheduler",
        filter=[plugin],
        score=[(plugin, 10)],
        ignored=frozenset({"Dies"} if ignored else ()),
    )
    return make_verbs(
        Profiles.of([profile]),
        limits=PluginLimits(clock),
        http_timeout_s=TIMEOUT_S,
        clock=now,
    )


async def in_time(verbs: Verbs, name: str, body: bytes, arrived_s: float) -> bytes:
    answer = await getattr(verbs, name).answer(body, arrived_s, lambda _: None)
    return bytes(answer.body)


def asked(verbs: Verbs, verb: str, then: str = "") -> Any:
    """What the verb answers, in no time."""
    return json.loads(run(in_time(verbs, verb, full(NODES, pod(then=then)), now())))


def begun(verbs: Verbs, then: str, arrived_s: float) -> "asyncio.Task[bytes]":
    """A call of filter."""
    return asyncio.ensure_future(in_time(verbs, "filter", full(NODES, pod(then=then)), arrived_s))


def hung(plugin: IsolatedPlugin, verbs: Verbs, then: str, share: float) -> Any:
    """What filter answers when so much of its time is over and its process still has the call."""

    async def ask() -> bytes:
        answer = begun(verbs, then, now())
        await skip_until(lambda: plugin._supervisor._current)
        await skip(TIMEOUT_S * 0.5)
        assert not answer.done()
        await skip(TIMEOUT_S * (share - 0.5))
        return await answer

    return json.loads(run(ask()))


def health(verbs: Verbs) -> tuple[bool, int, str]:
    breakers = verbs.limits.breakers
    dies = breakers.health()["Dies"]
    return dies.open, dies.stuck_threads, breakers.why_not_alive()


FAILED = 'Filter plugin "Dies" failed; kubextend\'s log says how'


@pytest.mark.parametrize("then", ["gil", "sleep", "spin"])
def test_a_call_that_hangs_is_answered_and_its_process_is_gone(
    dies: IsolatedPlugin, then: str
) -> None:
    clock = Clock()
    verbs = verbs_with(dies, clock)
    first = pid_of(dies)
    assert hung(dies, verbs, then, 0.8)["Error"] == FAILED
    assert health(verbs) == (True, 0, "")
    assert ends(first)
    assert asked(verbs, "filter")["Error"] == FAILED
    until(lambda: dies._supervisor._child is not None)
    clock.now_s += 31
    answer = asked(verbs, "filter")
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["n0"]
    assert health(verbs) == (False, 0, "")


def test_with_failure_policy_ignore_filter_goes_on_without_one_that_hangs(
    dies: IsolatedPlugin,
) -> None:
    verbs = verbs_with(dies, Clock(), ignored=True)
    answer = hung(dies, verbs, "gil", 0.6)
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["n0", "n1"]
    assert health(verbs) == (True, 0, "")


def test_requests_that_wait_behind_one_that_hangs_are_answered_too(dies: IsolatedPlugin) -> None:
    verbs = verbs_with(dies, Clock())

    async def ask_all() -> list[bytes]:
        supervisor, came_s = dies._supervisor, now()
        await skip(TIMEOUT_S * 0.1)
        hangs = begun(verbs, "gil", now())
        await skip_until(lambda: supervisor._current)
        # They came before it, and reach the process after it: their time is over first.
        waits = [begun(verbs, "", came_s) for _ in range(3)]
        await skip_until(lambda: len(supervisor._changed._waiters) == len(waits))
        await skip(TIMEOUT_S * 0.75)
        answers = await asyncio.gather(*waits)
        assert not hangs.done()
        await skip(TIMEOUT_S * 0.1)
        return [*answers, await hangs]

    for answer in run(ask_all()):
        assert json.loads(answer)["Error"] == FAILED
    until(lambda: health(verbs) == (True, 0, ""))


def test_prioritize_is_answered_by_the_same_process(dies: IsolatedPlugin) -> None:
    verbs = verbs_with(dies, Clock())
    assert asked(verbs, "prioritize") == [
        {"Host": "n0", "Score": 100},
        {"Host": "n1", "Score": 100},
    ]


def test_a_process_that_a_signal_ends_between_calls_is_noticed_by_the_next(
    dies: IsolatedPlugin,
) -> None:
    os.kill(pid_of(dies), signal.SIGKILL)
    with pytest.raises(PluginError, match="ended by SIGKILL"):
        filtered(dies)
    assert filtered(dies) == [0]


@pytest.mark.parametrize(
    ("plugin_class", "why"),
    [(Unmade, "RuntimeError: no licence"), (UnmadeAndGone, "its process ended with exit code 9")],
)
def test_a_plugin_that_cannot_be_made_there_says_why(plugin_class: type[Any], why: str) -> None:
    with pytest.raises(KubextendError) as raised, isolated(plugin_class):
        pass
    name = plugin_class.name
    assert str(raised.value) == f'plugin "{name}" cannot be made in a process of its own: {why}'


def test_a_plugin_is_made_started_and_stopped_in_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", SOON_S)
    diary = tmp_path / "diary"
    with isolated(Diary, DiaryArgs(file=diary)) as plugin:
        first = pid_of(plugin)
        assert plugin.start is not None
        plugin.start()
        of, nodes = read(full(NODES))
        assert plugin.filter_nodes(CycleState(), of, nodes) == []
        with pytest.raises(PluginError):
            plugin.filter_nodes(CycleState(), read(full(NODES, pod(then="exit")))[0], nodes)
        assert plugin.filter_nodes(CycleState(), of, nodes) == []
        second = pid_of(plugin)
    sees = "(None, None, []) None"
    assert diary.read_text().splitlines() == [
        *(f"{first} {what}" for what in ("made", "started", sees)),
        *(f"{second} {what}" for what in ("made", "started", sees, "stopped")),
    ]
    assert first != second
    assert os.getpid() not in {first, second}
    assert ends(second)


def test_a_plugin_whose_work_does_not_begin_is_asked_all_the_same() -> None:
    with isolated(NeverStarts) as plugin:
        first = pid_of(plugin)
        assert plugin.start is not None
        with pytest.raises(ChildError, match="RuntimeError: no route"):
            plugin.start()
        assert filtered(plugin) == [0]
        assert pid_of(plugin) == first
        with pytest.raises(PluginError):
            filtered(plugin, "exit")
        assert filtered(plugin) == [0]


def test_a_plugin_that_hangs_in_its_start_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with isolated(StartsForEver) as plugin:
        first = pid_of(plugin)
        monkeypatch.setattr(process, "START_TIMEOUT_S", 0.2)
        assert plugin.start is not None
        with pytest.raises(ChildError):
            plugin.start()
        assert ends(first)
        with pytest.raises(PluginError, match="not started again yet"):
            filtered(plugin)


def test_a_plugin_without_background_work_has_no_start() -> None:
    with isolated(Dies) as plugin:
        assert plugin.start is None
        plugin.stop()
        plugin.stop()
        with pytest.raises(PluginError):
            filtered(plugin)


@pytest.mark.parametrize("then", ["", "gil", "spin"])
def test_the_process_ends_with_its_parent_whatever_it_does(then: str) -> None:
    parent = f"""
        import os, signal, sys, threading, time
        sys.path[:] = {sys.path!r}
        from isolation_world import *
        with isolated(Dies) as plugin:
            print(pid_of(plugin), flush=True)
            of, nodes = read(full([node("n0")], pod(then={then!r})))
            ask = lambda: plugin.filter_nodes(CycleState(), of, nodes)
            threading.Thread(target=ask, daemon=True).start()
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(parent)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=SOON_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert ends(int(done.stdout))


def test_a_plugin_that_nobody_has_any_more_leaves_no_process() -> None:
    plugin = IsolatedPlugin.of(RegisteredPlugin("Dies", Dies), None, ["filter"])
    pid = pid_of(plugin)
    del plugin
    assert ends(pid)


def test_processes_that_have_ended_leave_no_descriptor_open() -> None:
    def descriptors_after_a_process() -> int:
        with isolated(Dies):
            pass
        return len(list(Path("/proc/self/fd").iterdir()))

    counts = [descriptors_after_a_process() for _ in range(4)]
    assert counts[-1] < counts[0] + 3


def test_nothing_that_listens_is_inherited(dies: IsolatedPlugin) -> None:
    open_files = Path(f"/proc/{pid_of(dies)}/fd")
    kinds = [str(each.readlink()).partition(":")[0] for each in open_files.iterdir()]
    # stdin, stdout, stderr, the socket to its parent, and the pipe that tells of its end.
    assert kinds.count("socket") == 1
    assert len(kinds) == 5


def test_ctrl_c_in_the_terminal_of_its_parent_does_not_reach_the_process(
    dies: IsolatedPlugin,
) -> None:
    # A terminal signals a whole group, and requests are still drained after that.
    assert os.getpgid(pid_of(dies)) != os.getpgrp()
