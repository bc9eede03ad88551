"""The binding cycle: order, codes, waits, and what is undone."""

import asyncio
import functools
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from profile_world import Said, request, state

from kubextend.errors import ClusterError, PluginError
from kubextend.framework.status import Code, Status
from kubextend.profile import BindingCycle, BindingPlugins, BindTime, PluginLimits, WaitingPods
from kubextend.profile.threads import Threads
from skipping_loop import AT_MOST_S, skip, until
from skipping_loop import run as run_skipping

LIMITS = PluginLimits()


def cycle(
    diary: list[str],
    *plugins: Any,
    waiting: WaitingPods | None = None,
    default: Callable[[], Awaitable[None]] | None = None,
) -> BindingCycle:
    async def default_bind() -> None:
        diary.append("default bind")

    def having(method: str) -> list[Any]:
        return [plugin for plugin in plugins if hasattr(plugin, method)]

    pod, _ = request("n")
    return BindingCycle(
        BindingPlugins(
            reserve=having("reserve"),
            permit=having("permit"),
            pre_bind=having("pre_bind"),
            bind=having("bind"),
            post_bind=having("post_bind"),
        ),
        state(),
        pod,
        "n",
        waiting if waiting is not None else WaitingPods(),
        default or default_bind,
        LIMITS,
    )


def all_points(name: str, diary: list[str], **other: Any) -> Said:
    answers: dict[str, Any] = {
        "reserve": None,
        "unreserve": None,
        "permit": None,
        "pre_bind": None,
        "bind": Status.skip(),
        "post_bind": None,
    }
    return Said(name, diary, **(answers | other))


def test_everything_in_order_and_the_default_binds_where_all_skip() -> None:
    diary: list[str] = []
    status = asyncio.run(cycle(diary, all_points("A", diary), all_points("B", diary)).run())
    assert status.is_success
    assert diary == [
        *("A.reserve", "B.reserve", "A.permit", "B.permit", "A.pre_bind", "B.pre_bind"),
        *("A.bind", "B.bind", "default bind", "A.post_bind", "B.post_bind"),
    ]


def test_the_first_bind_plugin_that_does_not_skip_binds() -> None:
    diary: list[str] = []
    binding = all_points("A", diary, bind=None)
    status = asyncio.run(cycle(diary, binding, all_points("B", diary)).run())
    assert status.is_success
    assert "B.bind" not in diary
    assert "default bind" not in diary


REJECTED = Status.unschedulable("no")
FAILURES: dict[str, tuple[str, Any, list[str]]] = {
    "reserve": ("reserve", REJECTED, ["A.reserve"]),
    "permit": ("permit", REJECTED, ["A.reserve", "B.reserve", "A.permit"]),
    "pre_bind": (
        "pre_bind",
        REJECTED,
        ["A.reserve", "B.reserve", "A.permit", "B.permit", "A.pre_bind"],
    ),
    "bind": (
        "bind",
        REJECTED,
        [
            *("A.reserve", "B.reserve", "A.permit", "B.permit", "A.pre_bind", "B.pre_bind"),
            "A.bind",
        ],
    ),
}


@pytest.mark.parametrize(("point", "answer", "before"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("kind", ["rejects", "raises", "answers an error"])
def test_any_failure_unreserves_all_in_reverse_order(
    point: str, answer: Any, before: list[str], kind: str
) -> None:
    diary: list[str] = []
    said = {"rejects": answer, "raises": OSError("x"), "answers an error": Status.error("x")}
    broken = cycle(diary, all_points("A", diary, **{point: said[kind]}), all_points("B", diary))
    if kind == "rejects":
        assert asyncio.run(broken.run()) == REJECTED
    else:
        with pytest.raises(PluginError, match='running "A"'):
            asyncio.run(broken.run())
    assert diary == [*before, "B.unreserve", "A.unreserve"]


def test_a_refusal_of_the_api_unreserves_too() -> None:
    diary: list[str] = []

    async def refused() -> None:
        message = "pod is bound to node other"
        raise ClusterError(message, 409)

    with pytest.raises(ClusterError):
        asyncio.run(cycle(diary, all_points("A", diary), default=refused).run())
    assert diary[-1] == "A.unreserve"


def test_an_unreserve_that_raises_keeps_no_other_from_running() -> None:
    diary: list[str] = []
    broken = all_points("B", diary, unreserve=RuntimeError("x"), permit=REJECTED)
    assert asyncio.run(cycle(diary, all_points("A", diary), broken).run()) == REJECTED
    assert diary[-2:] == ["B.unreserve", "A.unreserve"]


class Cancelled:
    """What it awaits is cancelled, and nobody cancels the binding."""

    name = "Cancelled"

    async def reserve(self, *_: Any) -> None:
        await self._cancelled()

    async def unreserve(self, *_: Any) -> None:
        await self._cancelled()

    async def _cancelled(self) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future


def test_a_plugin_that_raises_cancelled_error_has_failed_and_keeps_no_other_from_unreserving() -> (
    None
):
    diary: list[str] = []
    with pytest.raises(PluginError, match='running "Cancelled" Reserve plugin'):
        asyncio.run(cycle(diary, all_points("A", diary), Cancelled()).run())
    assert diary == ["A.reserve", "A.unreserve"]


def test_a_post_bind_that_raises_changes_nothing() -> None:
    diary: list[str] = []
    status = asyncio.run(cycle(diary, all_points("A", diary, post_bind=OSError("x"))).run())
    assert status.is_success


def test_methods_may_be_async() -> None:
    seen: list[str] = []

    class Async:
        name = "Async"

        async def reserve(self, *_: object) -> None:
            await asyncio.sleep(0)
            seen.append("reserve")

        async def unreserve(self, *_: object) -> None:
            await asyncio.sleep(0)
            seen.append("unreserve")

        async def permit(self, *_: object) -> Status:
            await asyncio.sleep(0)
            return Status.unschedulable("no")

    assert asyncio.run(cycle([], Async()).run()) == REJECTED
    assert seen == ["reserve", "unreserve"]


async def _held(waiting: WaitingPods) -> Any:
    while (held := waiting.get("u-p")) is None:  # noqa: ASYNC110  nothing tells when it is held
        await asyncio.sleep(0)
    return held


WAIT = (Status.wait(), 60.0)


def test_a_waiting_pod_goes_on_when_every_plugin_allows_it() -> None:
    async def scenario() -> tuple[Status, list[tuple[str, ...]]]:
        waiting, diary = WaitingPods(), list[str]()
        plugins = [all_points("A", diary, permit=WAIT), all_points("B", diary, permit=WAIT)]
        run = asyncio.create_task(cycle(diary, *plugins, waiting=waiting).run())
        held = await _held(waiting)
        pending = [held.pending_plugins]
        held.allow("A")
        held.allow("A")
        pending.append(held.pending_plugins)
        await skip(59)
        assert not run.done()
        held.allow("B")
        status = await run
        assert len(waiting) == 0
        assert held.reject("A", "too late") is False
        return status, pending

    status, pending = run_skipping(scenario())
    assert status.is_success
    assert pending == [("A", "B"), ("B",)]


def test_a_waiting_pod_is_sent_back_with_the_reason() -> None:
    async def scenario() -> tuple[Status, list[str]]:
        waiting, diary = WaitingPods(), list[str]()
        plugin = all_points("A", diary, permit=WAIT)
        run = asyncio.create_task(cycle(diary, plugin, waiting=waiting).run())
        await _held(waiting)
        assert waiting.reject("u-p", "A", "the gang is gone")
        return await run, diary

    status, diary = asyncio.run(scenario())
    assert (status.code, status.reason) == (Code.UNSCHEDULABLE, "the gang is gone")
    assert diary[-1] == "A.unreserve"


TIMEOUTS: dict[str, tuple[Any, Any, str]] = {
    "the first to pass rejects": (
        (Status.wait(), 0.02),
        (Status.wait(), 60.0),
        "rejected due to timeout after waiting 20ms at plugin A",
    ),
    "zero fires at once": (
        (Status.wait(), 0.0),
        None,
        "rejected due to timeout after waiting 0s at plugin A",
    ),
    "there is no less than zero": (
        (Status.wait(), float("-inf")),
        None,
        "rejected due to timeout after waiting 0s at plugin A",
    ),
    "a wait without a timeout is zero": (
        Status.wait(),
        None,
        "rejected due to timeout after waiting 0s at plugin A",
    ),
}


@pytest.mark.parametrize(("first", "second", "reason"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_permit_timeouts(first: Any, second: Any, reason: str) -> None:
    diary: list[str] = []
    plugins = [all_points("A", diary, permit=first), all_points("B", diary, permit=second)]
    status = asyncio.run(cycle(diary, *plugins).run())
    assert (status.code, status.reason) == (Code.UNSCHEDULABLE, reason)


def test_no_plugin_holds_a_pod_longer_than_the_configuration_allows() -> None:
    async def scenario() -> float:
        waiting, diary = WaitingPods(30), list[str]()
        plugin = all_points("A", diary, permit=WAIT)
        run = asyncio.create_task(cycle(diary, plugin, waiting=waiting).run())
        held = await _held(waiting)
        held_for_s: float = held.deadline_s - held.since_s
        held.allow("A")
        assert (await run).is_success
        return held_for_s

    assert asyncio.run(scenario()) == pytest.approx(30)


def test_a_later_rejection_wins_over_a_wait() -> None:
    diary: list[str] = []
    plugins = [all_points("A", diary, permit=WAIT), all_points("B", diary, permit=REJECTED)]
    assert asyncio.run(cycle(diary, *plugins).run()) == REJECTED


def test_a_cancelled_wait_frees_what_was_reserved() -> None:
    async def scenario() -> list[str]:
        waiting, diary = WaitingPods(), list[str]()
        plugin = all_points("A", diary, permit=WAIT)
        run = asyncio.create_task(cycle(diary, plugin, waiting=waiting).run())
        held = await _held(waiting)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert len(waiting) == 0
        # Nor does its timer go on, and nobody decides it any more.
        assert held.deadline_s is None
        assert not held.allow("A")
        assert not held.reject("A", "too late")
        return diary

    assert asyncio.run(scenario()) == ["A.reserve", "A.permit", "A.unreserve"]


class Reserves:
    """Reserves and gives up in the event loop; its ``unreserve`` takes until it is let go."""

    def __init__(self, name: str, diary: list[str], *, slow: bool = False) -> None:
        self.name = name
        self.diary = diary
        self.unreserving = asyncio.Event()
        self.go = asyncio.Event()
        if not slow:
            self.go.set()

    async def reserve(self, *_: Any) -> None:
        self.diary.append(f"{self.name}.reserve")

    async def unreserve(self, *_: Any) -> None:
        self.unreserving.set()
        await self.go.wait()
        self.diary.append(f"{self.name}.unreserve")


def test_unreserve_of_all_runs_also_where_it_is_cancelled_in_the_middle() -> None:
    async def scenario() -> list[str]:
        waiting, diary = WaitingPods(), list[str]()
        slow = Reserves("B", diary, slow=True)
        plugins = [Reserves("A", diary), slow, all_points("C", diary, permit=WAIT)]
        run = asyncio.create_task(cycle(diary, *plugins, waiting=waiting).run())
        await _held(waiting)
        run.cancel()
        await slow.unreserving.wait()
        run.cancel()
        await asyncio.sleep(0)
        slow.go.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        return diary

    diary = asyncio.run(scenario())
    assert diary[-3:] == ["C.unreserve", "B.unreserve", "A.unreserve"]


def test_every_post_bind_runs_also_where_it_is_cancelled_in_the_middle() -> None:
    class Slow:
        name = "Slow"

        def __init__(self) -> None:
            self.told, self.go = asyncio.Event(), asyncio.Event()

        async def post_bind(self, *_: Any) -> None:
            self.told.set()
            await self.go.wait()

    async def scenario() -> list[str]:
        diary, slow = list[str](), Slow()
        run = asyncio.create_task(cycle(diary, slow, Said("B", diary, post_bind=None)).run())
        await slow.told.wait()
        run.cancel()
        await asyncio.sleep(0)
        slow.go.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        return diary

    assert asyncio.run(scenario()) == ["default bind", "B.post_bind"]


# kube-scheduler's timeout, and until when plugins, the cycle and what comes after it may go on.
BIND_TIMES = [
    (10.0, (8.0, 8.5, 9.5)),
    (100.0, (80.0, 85.0, 95.0)),
    (900.0, (880.0, 885.0, 895.0)),
    (None, (None, None, None)),
]


@pytest.mark.parametrize(("timeout_s", "until_s"), BIND_TIMES)
def test_of_the_time_of_a_bind_a_fifth_is_left_over_and_no_more_than_twenty_seconds(
    timeout_s: float | None, until_s: tuple[float | None, ...]
) -> None:
    time_of = BindTime(0.0, timeout_s)
    assert (
        time_of.plugins_until_s,
        time_of.all_until_s,
        time_of.cleanup_until_s,
    ) == until_s


def test_unreserve_runs_late_where_no_thread_is_free_for_it_in_time() -> None:
    diary: list[str] = []
    unreserved, go = threading.Event(), threading.Event()

    class Late(Reserves):
        async def reserve(self, *_: Any) -> Status:
            return REJECTED

        def unreserve(self, *_: Any) -> None:  # type: ignore[override]
            unreserved.set()

    async def scenario() -> Status:
        run = cycle(diary, Late("A", diary))
        run.limits = PluginLimits()
        run.limits._binding_threads = Threads(1, "only")
        run.limits._binding_threads.submit(go.wait)
        # What is awaited after that finds its time over.
        run.time = BindTime(time.monotonic() - 60, timeout_s=1)
        return await run.run()

    assert asyncio.run(scenario()) == REJECTED
    assert not unreserved.is_set()
    go.set()
    assert unreserved.wait(60)


def test_two_hundred_waiting_pods_hold_no_thread_each() -> None:
    async def scenario() -> int:
        before = threading.active_count()
        pods: list[WaitingPods] = [WaitingPods() for _ in range(200)]
        runs = [
            asyncio.create_task(cycle([], all_points("A", [], permit=WAIT), waiting=waiting).run())
            for waiting in pods
        ]
        held = [await _held(waiting) for waiting in pods]
        threads = threading.active_count() - before
        for waiting_pod in held:
            waiting_pod.allow("A")
        statuses = await asyncio.gather(*runs)
        assert all(status.is_success for status in statuses)
        return threads

    assert asyncio.run(scenario()) < 40


def logged(method: Callable[..., Any]) -> Callable[..., Any]:
    """What many plugins wrap their methods in: nobody sees that they are async."""

    @functools.wraps(method)
    def wrapper(*arguments: Any) -> Any:
        return method(*arguments)

    return wrapper


def test_an_async_method_behind_a_decorator_is_awaited_at_every_point() -> None:
    diary: list[str] = []

    class Decorated:
        name = "Decorated"

    def saying(name: str, answer: Any) -> Callable[..., Any]:
        async def method(*_: Any) -> Any:
            await asyncio.sleep(0)
            diary.append(name)
            return answer

        return logged(method)

    plugin: Any = Decorated()
    plugin.reserve = saying("reserve", None)
    plugin.unreserve = saying("unreserve", None)
    plugin.permit = saying("permit", (Status.success(), 1.0))
    plugin.pre_bind = saying("pre_bind", None)
    plugin.bind = saying("bind", Status.success())
    plugin.post_bind = saying("post_bind", None)
    assert asyncio.run(cycle(diary, plugin).run()).is_success
    assert diary == ["reserve", "permit", "pre_bind", "bind", "post_bind"]
    diary.clear()
    plugin.pre_bind = saying("pre_bind", Status.unschedulable("no"))
    assert not asyncio.run(cycle(diary, plugin).run()).is_success
    assert diary == ["reserve", "permit", "pre_bind", "unreserve"]


@pytest.mark.parametrize(
    ("method", "point"),
    [("reserve", "Reserve"), ("permit", "Permit"), ("pre_bind", "PreBind"), ("bind", "Bind")],
)
def test_a_call_that_its_unreserve_overtook_is_undone_and_no_newer_bind_reserves_before(
    method: str, point: str
) -> None:
    began, go = threading.Event(), threading.Event()
    diary: list[str] = []

    class Slow:
        name = "Slow"

        async def reserve(self, *_: Any) -> None:
            pass

        async def unreserve(self, *_: Any) -> None:
            diary.append("unreserve")

    def hang(*_: Any) -> None:
        began.set()
        assert go.wait(AT_MOST_S)
        diary.append(method)

    async def scenario() -> Status:
        slow = Slow()
        setattr(slow, method, hang)
        run = asyncio.create_task(cycle(diary, slow).run())
        assert await asyncio.to_thread(began.wait, AT_MOST_S)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        newer = await cycle(diary, slow).run()
        assert diary == ["unreserve"]
        go.set()
        await until(lambda: LIMITS.late.of("u-p") is None)
        assert diary == ["unreserve", method, "unreserve"]
        assert (await cycle(diary, slow).run()).is_success
        return newer

    try:
        newer = run_skipping(scenario())
    finally:
        go.set()
    why = f"an earlier {point} of plugin Slow for this pod has not returned"
    assert newer == Status.error(why)


class Catches:
    """Catches the cancellation of the one method that waits, and answers after that."""

    name = "Catches"

    def __init__(self, diary: list[str], method: str, answer: Any) -> None:
        self.diary = diary
        self.waits = asyncio.Event()
        setattr(self, method, self._wait)
        self._method, self._answer = method, answer

    async def _wait(self, *_: Any) -> Any:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        self.diary.append(self._method)
        return self._answer


@pytest.mark.parametrize(
    ("method", "answer", "before"),
    [
        ("permit", WAIT, []),
        ("permit", None, []),
        ("pre_bind", None, ["B.permit"]),
        ("bind", Status.skip(), ["B.permit", "B.pre_bind"]),
    ],
)
def test_a_bind_whose_cancellation_a_plugin_catches_ends_nevertheless(
    method: str, answer: Any, before: list[str]
) -> None:
    diary: list[str] = []
    plugin = Catches(diary, method, answer)

    async def scenario() -> None:
        waiting = WaitingPods()
        last = all_points("B", diary)
        run = asyncio.create_task(
            cycle(diary, Reserves("A", diary), plugin, last, waiting=waiting).run()
        )
        await plugin.waits.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert len(waiting) == 0

    run_skipping(scenario())
    begin = ["A.reserve", "B.reserve"]
    assert diary == [*begin, *before, method, "B.unreserve", "A.unreserve"]


def test_a_pod_that_a_bind_plugin_binds_although_it_is_cancelled_is_bound() -> None:
    diary: list[str] = []
    plugin = Catches(diary, "bind", None)

    async def scenario() -> Status:
        run = asyncio.create_task(cycle(diary, Reserves("A", diary), plugin).run())
        await plugin.waits.wait()
        run.cancel()
        return await run

    assert run_skipping(scenario()).is_success
    assert diary == ["A.reserve", "bind"]


def test_unreserve_runs_after_a_bind_plugin_has_ended_that_is_cancelled() -> None:
    diary: list[str] = []
    began = asyncio.Event()

    class CleansUp:
        name = "CleansUp"

        async def bind(self, *_: Any) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(3):
                    await asyncio.sleep(0)
                diary.append("cleaned up")

    async def scenario() -> None:
        run = asyncio.create_task(cycle(diary, Reserves("A", diary), CleansUp()).run())
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    run_skipping(scenario())
    assert diary == ["A.reserve", "cleaned up", "A.unreserve"]


def test_a_late_call_of_a_plugin_that_reserves_nothing_keeps_no_newer_bind_back() -> None:
    began, go = threading.Event(), threading.Event()
    diary: list[str] = []

    class Slow:
        name = "Slow"

        def pre_bind(self, *_: Any) -> None:
            began.set()
            assert go.wait(AT_MOST_S)

    async def scenario() -> None:
        reserves = Reserves("A", diary)
        run = asyncio.create_task(cycle(diary, reserves, Slow()).run())
        assert await asyncio.to_thread(began.wait, AT_MOST_S)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (await cycle(diary, reserves).run()).is_success

    try:
        run_skipping(scenario())
    finally:
        go.set()
    assert diary == ["A.reserve", "A.unreserve", "A.reserve", "default bind"]


def test_a_post_bind_that_outlives_its_bind_is_followed_by_no_unreserve() -> None:
    go = threading.Event()
    diary: list[str] = []

    class Slow:
        name = "Slow"

        async def reserve(self, *_: Any) -> None:
            pass

        async def unreserve(self, *_: Any) -> None:
            diary.append("unreserve")

        def post_bind(self, *_: Any) -> None:
            assert go.wait(AT_MOST_S)

    async def scenario() -> None:
        late = cycle(diary, Slow())
        # Nothing is left of the time for PostBind.
        late.time = BindTime(time.monotonic() - 99, timeout_s=100)
        await late._post_bind()
        assert LIMITS.late.of("u-p") is None

    try:
        run_skipping(scenario())
    finally:
        go.set()
    assert diary == []


def test_an_unreserve_after_one_that_hung_has_time_of_its_own() -> None:
    # What hangs first has used up the cleanup's time, of which nothing is left.
    late = BindTime(time.monotonic() - 600, timeout_s=100)
    began_s = time.monotonic()
    until_s = late.unreserve_until_s(0)
    assert until_s is not None
    assert until_s >= began_s + 1
    early = BindTime(time.monotonic() + 600, timeout_s=100)
    assert early.cleanup_until_s is not None
    assert early.unreserve_until_s(3) == early.cleanup_until_s - 3
