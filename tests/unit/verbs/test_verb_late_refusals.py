"""Refused binds of members of a pod group: how late kube-scheduler is told, and of which pods.

kube-scheduler 1.37 tries such a pod again without any backoff.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import (
    Binder,
    Clock,
    Pods,
    Watched,
    names_request,
    node,
    pod,
    unplaced_pods,
)

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from make_verbs import make_verbs
from skipping_loop import now, run, skip, until

NO = "nobody may"


def member(name: str = "pod", **fields: Any) -> dict[str, Any]:
    made = pod(name)
    made["spec"] = {"schedulingGroup": {"podGroupName": "gang"}, **fields}
    return made


@dataclass
class Reader:
    """Reads the one pod that there is from the API."""

    pod: dict[str, Any] | None = None
    error: ClusterError | None = None

    def get(self, _namespace: str, _name: str) -> core.Pod | None:
        if self.error is not None:
            raise self.error
        if self.pod is None:
            return None
        return core.read_args(names_request([], of=self.pod)).pod


@dataclass
class Refuses:
    """Refuses pods at one extension point; notes when Unreserve is called."""

    at: str = "reserve"
    unreserved: int = 0
    name: str = "Refuses"

    async def reserve(self, *_: Any) -> Status:
        return self._at("reserve")

    async def permit(self, *_: Any) -> Status:
        return self._at("permit")

    async def pre_bind(self, *_: Any) -> Status:
        return self._at("pre_bind")

    async def bind(self, *_: Any) -> Status:
        return self._at("bind") if self.at == "bind" else Status.skip()

    async def unreserve(self, *_: Any) -> None:
        self.unreserved += 1

    def filter_nodes(self, _state: object, _pod: object, nodes: core.Nodes) -> Sequence[Rejection]:
        everything = nodes.everything() if self.at == "filter" else nodes.nothing()
        return [Rejection(everything, Status.unschedulable(NO))]

    def _at(self, point: str) -> Status:
        if self.at == "raise":
            raise RuntimeError(NO)
        return Status.unschedulable(NO) if self.at == point else Status.success()


@dataclass
class World:
    """A plugin, two nodes, and the binds of one pod."""

    plugin: Refuses | None = field(default_factory=Refuses)
    pods: Pods | None = field(default_factory=lambda: Pods().showing(member()))
    joined: dict[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.unplaced = unplaced_pods(clock=self.clock)
        plugins = [] if self.plugin is None else [self.plugin]
        points = dict.fromkeys(("reserve", "permit", "pre_bind", "bind"), plugins)
        store = None if self.pods is None else self.pods.store
        profile = Profile(
            "default-scheduler",
            filter=plugins,
            binding=BindingPlugins(**points),  # type: ignore[arg-type]
            counts_pods=store is not None and bool(plugins),
            pods=(lambda: None) if store is None else store.snapshot,
        )
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=Watched().listing(node("n"), node("m")),
            pods=self.pods,
            unplaced=self.unplaced,
            clock=self.clock,
            **({"binder": Binder(), "http_timeout_s": 600.0} | self.joined),
        )

    def begin(self, name: str = "pod") -> "asyncio.Task[str]":
        """Begin to answer a bind request for the pod."""
        body = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-of-{name}", "Node": "n"}

        async def answered() -> str:
            answer = await self.verbs.bind(json.dumps(body).encode())
            error: str = json.loads(answer)["Error"]
            return error

        return asyncio.create_task(answered())

    async def refused_after_s(self, name: str = "pod") -> float:
        """Bind the pod, which is refused; return the seconds until kube-scheduler is told."""
        began_s, answer = now(), self.begin(name)
        await until(lambda: answer.done() or len(self.verbs.throttle))
        while not answer.done():
            await skip(0.25)
        assert await answer
        return now() - began_s


def test_each_refusal_of_a_member_takes_twice_as_long_and_ten_seconds_at_most() -> None:
    world = World()

    async def scenario() -> list[float]:
        return [await world.refused_after_s() for _ in range(7)]

    assert run(scenario()) == [1, 2, 4, 8, 10, 10, 10]


def test_the_log_names_the_group_of_a_refused_member(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run(World().refused_after_s())
    assert any(line.endswith("pod ml/pod in pod group gang") for line in caplog.messages)


def test_a_lone_pod_has_its_answer_at_once() -> None:
    world = World(pods=Pods().showing(pod()))

    async def scenario() -> list[float]:
        return [await world.refused_after_s() for _ in range(3)]

    assert run(scenario()) == [0, 0, 0]
    assert len(world.unplaced) == 0


@pytest.mark.parametrize("at", ["reserve", "permit", "pre_bind", "bind", "filter", "raise"])
def test_it_does_not_matter_which_plugin_refuses_and_how(at: str) -> None:
    world = World(Refuses(at))

    async def scenario() -> list[float]:
        return [await world.refused_after_s() for _ in range(2)]

    assert run(scenario()) == [1, 2]


# (what refuses, the parts of the verbs)
OTHERS: list[tuple[str, Callable[[], World]]] = [
    ("the API", lambda: World(None, joined={"binder": Binder(ClusterError("no"))})),
    ("the API's time", lambda: World(None, joined={"binder": Binder(TimeoutError())})),
    ("nobody can bind", lambda: World(None, joined={"binder": None})),
    (
        "the guard",
        lambda: World(
            None,
            Pods().showing(member(containers=[{"resources": {"requests": {"cpu": "1"}}}])),
            {"guards_resources": True},
        ),
    ),
    ("kubextend is not ready", lambda: World(joined={"not_started": lambda: ["Refuses"]})),
]


@pytest.mark.parametrize(("what", "made"), OTHERS, ids=[what for what, _ in OTHERS])
def test_it_does_not_matter_what_else_refuses(what: str, made: Callable[[], World]) -> None:
    del what
    world = made()

    async def scenario() -> list[float]:
        return [await world.refused_after_s() for _ in range(2)]

    assert run(scenario()) == [1, 2]


def test_the_answer_waits_after_unreserve_and_with_nothing_assumed() -> None:
    plugin, pods = Refuses("pre_bind"), Pods().showing(member())
    world = World(plugin, pods)

    async def scenario() -> None:
        answer = world.begin()
        await until(lambda: len(world.verbs.throttle))
        assert plugin.unreserved == 1
        assert pods.store.assumed() == []
        assert not answer.done()
        await skip(1)
        assert await answer == NO

    run(scenario())


def test_no_answer_waits_until_kube_scheduler_gives_up() -> None:
    # 95 % of bind's timeout.
    world = World(joined={"bind_timeout_s": 6.0})

    async def scenario() -> list[float]:
        return [await world.refused_after_s() for _ in range(5)]

    *_, last_s = run(scenario())
    assert 5.0 <= last_s <= 6.0


def test_a_client_that_leaves_ends_the_wait() -> None:
    world = World()

    async def scenario() -> None:
        answer = world.begin()
        await until(lambda: len(world.verbs.throttle))
        answer.cancel()
        await asyncio.wait([answer])
        assert len(world.verbs.throttle) == 0

    run(scenario())


def test_the_end_of_kubextend_ends_the_wait() -> None:
    world = World()

    async def scenario() -> None:
        answer = world.begin()
        await until(lambda: len(world.verbs.throttle))
        world.verbs.throttle.close()
        assert await answer == NO

    run(scenario())


def old(world: World) -> None:
    world.clock.now_s += 3601
    world.unplaced.wake_due()


# (what ends the count, how)
ENDS: list[tuple[str, Callable[[World], object]]] = [
    ("the pod is seen deleted or bound", lambda world: world.unplaced.forget("uid-of-pod")),
    ("nothing was heard of the pod for an hour", old),
]


@pytest.mark.parametrize(("what", "end"), ENDS, ids=[what for what, _ in ENDS])
def test_a_count_ends(what: str, end: Callable[[World], object]) -> None:
    del what
    world = World()

    async def scenario() -> list[float]:
        before = [await world.refused_after_s() for _ in range(3)]
        end(world)
        assert len(world.unplaced) == 0
        return [*before, await world.refused_after_s()]

    assert run(scenario()) == [1, 2, 4, 1]


def test_a_bind_that_succeeds_ends_the_count() -> None:
    plugin = Refuses()
    world = World(plugin)

    async def scenario() -> None:
        await world.refused_after_s()
        assert len(world.unplaced) == 1
        plugin.at = ""
        assert await world.begin() == ""
        assert len(world.unplaced) == 0

    run(scenario())


def test_filter_calls_between_do_not_end_the_count() -> None:
    world = World(Refuses("pre_bind"))

    async def scenario() -> list[float]:
        delays = []
        for _ in range(3):
            world.verbs.filter(names_request(["n", "m"], of=member()))
            delays.append(await world.refused_after_s())
        return delays

    assert run(scenario()) == [1, 2, 4]


def test_each_pod_has_a_count_of_its_own() -> None:
    world = World(pods=Pods().showing(member(), member("other")))

    async def scenario() -> list[float]:
        names = ["pod", "pod", "other", "pod", "other"]
        return [await world.refused_after_s(name) for name in names]

    assert run(scenario()) == [1, 2, 1, 4, 2]


@pytest.mark.parametrize("shown", [[], [member(nodeName="m")]], ids=["deleted", "bound"])
def test_of_a_pod_that_is_gone_or_bound_nothing_is_remembered(shown: list[object]) -> None:
    world = World(pods=Pods().showing(*shown), joined={"pod_reader": Reader(member())})

    async def scenario() -> list[float]:
        return [await world.refused_after_s() for _ in range(2)]

    assert run(scenario()) == [1, 1]
    assert len(world.unplaced) == 0


REFUSING_API = Binder(ClusterError("no"))


# (how kubextend may know the pod, the pod reader, the delay)
KNOWN: list[tuple[str, Reader, float]] = [
    ("a member, read from the API", Reader(member()), 1),
    ("a lone pod, read from the API", Reader(pod()), 0),
    ("another pod of the name", Reader({**member(), "metadata": pod("x")["metadata"]}), 0),
    ("no pod of the name", Reader(), 0),
    ("the API does not say", Reader(error=ClusterError("503")), 1),
]


@pytest.mark.parametrize(("what", "reader", "delay_s"), KNOWN, ids=[what for what, *_ in KNOWN])
def test_a_pod_that_no_plugin_of_bind_asks_for_is_looked_up_when_refused(
    what: str, reader: Reader, delay_s: float
) -> None:
    del what
    world = World(None, pods=None, joined={"binder": REFUSING_API, "pod_reader": reader})
    assert run(world.refused_after_s()) == delay_s


@pytest.mark.parametrize(("asked", "delays_s"), [(member(), [1, 2]), (pod(), [0, 0])])
def test_a_pod_that_filter_was_asked_about_needs_no_look(
    asked: dict[str, Any], delays_s: list[float]
) -> None:
    reader = Reader(error=ClusterError("never asked"))
    world = World(None, pods=None, joined={"binder": REFUSING_API, "pod_reader": reader})
    found = core.read_args(names_request([], of=asked)).pod
    assert found is not None

    async def scenario() -> list[float]:
        delays = []
        for _ in range(2):
            world.unplaced.begin(found)
            delays.append(await world.refused_after_s())
        return delays

    assert run(scenario()) == delays_s


def test_what_permit_said_holds_from_when_kube_scheduler_is_told() -> None:
    world = World(Refuses("permit"))

    def rejects() -> bool:
        answer = json.loads(world.verbs.filter(names_request(["n", "m"], of=member())))
        return bool(answer["FailedAndUnresolvableNodes"])

    async def scenario() -> None:
        answer = world.begin()
        await until(lambda: len(world.verbs.throttle))
        # The answer leaves after a second, and the rejection holds for ten more.
        world.clock.now_s += 10.5
        assert rejects()
        world.clock.now_s += 1
        assert not rejects()
        await skip(1)
        assert await answer == NO

    run(scenario())


def test_a_thousand_answers_wait_at_most() -> None:
    world = World()

    async def scenario() -> float:
        throttle = world.verbs.throttle
        waiting = [asyncio.create_task(throttle.wait(3600.0)) for _ in range(1000)]
        await skip()
        answer = world.begin()
        await until(answer.done)
        throttle.close()
        await asyncio.gather(*waiting)
        assert await answer == NO
        return len(throttle)

    assert run(scenario()) == 0


def test_the_counts_take_no_more_memory_than_records_of_pods_may() -> None:
    unplaced = unplaced_pods(room_for=10)
    for number in range(100):
        asked = core.read_args(names_request([], of=member(f"pod-{number}"))).pod
        assert asked is not None
        unplaced.refuse_bind(asked)
    assert len(unplaced) < 20
