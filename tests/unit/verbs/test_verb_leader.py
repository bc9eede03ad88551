"""Where plugins keep state: what verbs answer on a replica that leads, and on another."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import (
    NOT_LEADER,
    Activator,
    Binder,
    Leader,
    Needs,
    Pods,
    Watched,
    names_request,
    node,
    pod,
    preempt_request,
    watch_event,
)

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from make_verbs import make_verbs
from skipping_loop import run

PATIENT_S = 30
REFUSED = f"kubextend is not ready: {NOT_LEADER}"


@dataclass
class Steps:
    """A plugin that reserves, holds pods where asked to, and does what a test gives it to do."""

    name: str = "Steps"
    needs_pods: bool = True
    holds: bool = False
    on_pre_bind: Callable[[], object] = lambda: None
    on_pre_filter: Callable[[], object] = lambda: None
    calls: list[str] = field(default_factory=list)

    def pre_filter(self, *_: Any) -> None:
        self.on_pre_filter()

    def filter_nodes(self, _state: CycleState, *_: Any) -> Sequence[Rejection]:
        self.calls.append("filter")
        return []

    def score(self, *_: Any) -> int:
        self.calls.append("score")
        return 7

    async def reserve(self, *_: Any) -> None:
        self.calls.append("reserve")

    async def unreserve(self, *_: Any) -> None:
        self.calls.append("unreserve")

    async def permit(self, *_: Any) -> tuple[Status, float] | None:
        return (Status.wait(), 600.0) if self.holds else None

    async def pre_bind(self, *_: Any) -> None:
        self.on_pre_bind()


class World:
    """A profile whose plugin keeps state, and one without a plugin of the kind."""

    def __init__(self, leader: Leader | None = None, **steps: Any) -> None:
        self.leader = leader or Leader()
        self.steps = Steps(**steps)
        self.binder = Binder()
        self.activator = Activator()
        self.pods = Pods()
        for name in ("one", "two"):
            self.pods.store.apply(watch_event("ADDED", pod(name)))
        stateful = Profile(
            "default-scheduler",
            pre_filter=[self.steps],
            filter=[self.steps],
            score=[(self.steps, 10)],
            binding=BindingPlugins(
                reserve=[self.steps], permit=[self.steps], pre_bind=[self.steps]
            ),
            pods=self.pods.store.snapshot,
            counts_pods=True,
            needs_leader=True,
        )
        plain = Profile("plain", filter=[Needs("")])
        self.verbs = make_verbs(
            Profiles.of([stateful, plain]),
            watched=Watched().listing(node("n")),
            pods=self.pods,
            binder=self.binder,
            activator=self.activator,
            leader=self.leader,
        )

    def filter(self, scheduler: str | None = None) -> Any:
        asked = pod("one", scheduler=scheduler)
        return json.loads(bytes(self.verbs.filter(names_request(["n"], of=asked))))

    async def bind(self, name: str = "one") -> str:
        asked = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-of-{name}", "Node": "n"}
        error: str = json.loads(await self.verbs.bind(json.dumps(asked).encode()))["Error"]
        return error

    async def holds_one(self) -> None:
        while not len(self.verbs.waiting_pods):  # noqa: ASYNC110  nothing tells when it does
            await asyncio.sleep(0)

    @property
    def assumed(self) -> list[str]:
        return [each.name for each, _ in self.pods.store.assumed()]


def test_a_replica_that_does_not_lead_answers_every_verb_with_an_error() -> None:
    world = World()
    world.leader.loses()
    assert world.filter()["Error"] == REFUSED
    assert json.loads(world.verbs.prioritize(names_request(["n"], of=pod("one")))) == []
    evictions = json.loads(bytes(world.verbs.preempt(preempt_request({"n": ["u"]}, of=pod("one")))))
    assert evictions == {"NodeNameToMetaVictims": {}}
    assert asyncio.run(world.bind()) == REFUSED
    assert (world.steps.calls, world.binder.bound) == ([], [])


def test_a_leader_that_has_not_seen_what_the_leader_before_did_decides_nothing() -> None:
    world = World()
    world.leader.fresh = False
    assert world.filter()["Error"] == REFUSED
    assert asyncio.run(world.bind()) == REFUSED
    world.leader.fresh = True
    assert world.filter()["Error"] == ""
    assert asyncio.run(world.bind()) == ""


def test_a_profile_without_state_is_answered_by_every_replica() -> None:
    world = World()
    world.leader.loses()
    assert world.filter(scheduler="plain")["NodeNames"] == ["n"]


def test_readiness_does_not_ask_for_the_lead() -> None:
    world = World()
    world.leader.loses()
    assert {why() for why in world.verbs.readiness.conditions.values()} == {""}


def test_held_pods_are_given_up_with_the_lead_after_unreserve() -> None:
    async def scenario() -> str:
        async with asyncio.timeout(PATIENT_S):
            bind = asyncio.create_task(world.bind())
            await world.holds_one()
            assert world.verbs.bind.is_busy
            world.leader.loses()
            world.verbs.cease_to_lead(NOT_LEADER)
            return await bind

    world = World(holds=True)
    assert world.filter()["Error"] == ""
    assert asyncio.run(scenario()) == NOT_LEADER
    assert world.steps.calls[-2:] == ["reserve", "unreserve"]
    assert (world.assumed, world.binder.bound, world.verbs.bind.is_busy) == ([], [], False)


def test_a_bind_counts_as_under_way_before_its_cycle_begins() -> None:
    under_way: list[bool] = []
    world = World(on_pre_filter=lambda: under_way.append(world.verbs.bind.is_busy))
    # Without a filter call before, bind runs PreFilter itself.
    assert asyncio.run(world.bind()) == ""
    assert under_way[0]
    assert not world.verbs.bind.is_busy


@pytest.mark.parametrize("wins_again", [False, True])
def test_a_bind_that_began_before_the_lead_was_lost_binds_nothing(wins_again: bool) -> None:
    world = World()

    def changes() -> None:
        world.leader.loses()
        if wins_again:
            world.leader.wins()

    world.steps.on_pre_bind = changes
    assert asyncio.run(world.bind()) == NOT_LEADER
    assert world.steps.calls[-1] == "unreserve"
    assert (world.assumed, world.binder.bound) == ([], [])


def test_a_lead_that_ends_before_the_cycle_begins_holds_no_pod() -> None:
    """PreFilter runs for a pod whose attempt is not known, before the bind is under way."""
    world = World(holds=True)
    world.steps.on_pre_filter = world.leader.loses
    assert asyncio.run(world.bind()) == NOT_LEADER
    assert world.steps.calls == []


def test_a_binding_is_not_posted_for_longer_than_the_replica_surely_leads() -> None:
    world = World()
    world.leader.lasts_s = 0.25
    assert asyncio.run(world.bind()) == ""
    assert world.binder.timeouts_s == [0.25]
    world.leader.lasts_s = 0.0
    assert asyncio.run(world.bind("two")) == "kubextend has not bound the pod in time"
    assert len(world.binder.bound) == 1


@dataclass
class LeadsFor(Leader):
    """A leader that loses the lead after so many looks at it."""

    looks: int = 0

    def why_over(self, term: int) -> str:
        self.looks -= 1
        return super().why_over(term) if self.looks >= 0 else NOT_LEADER


@pytest.mark.parametrize("looks", range(6))
def test_the_lead_is_looked_at_before_the_cycle_each_of_its_steps_and_the_binding(
    looks: int,
) -> None:
    world = World(leader=LeadsFor(looks=looks))
    assert asyncio.run(world.bind()) == NOT_LEADER
    assert (world.assumed, world.binder.bound) == ([], [])


@dataclass
class RetriedOnce(Binder):
    """Posts a Binding twice, because the API refuses the first attempt for now."""

    between: Callable[[], object] = lambda: None
    posts: int = 0

    def bind(self, *names: str, why_not: Callable[[], str] = lambda: "", **_: Any) -> None:
        for attempt in range(2):
            if why := why_not():
                raise ClusterError(why)
            self.posts += 1
            if not attempt:
                self.between()


@dataclass
class Guards:
    """A guard that says what a test tells it to."""

    said: str = ""

    def why_not(self, _uid: str, _node: str) -> str:
        return self.said


@pytest.mark.parametrize("plugins", [True, False])
@pytest.mark.parametrize("what", ["lead", "deleted", "cordoned", "full"])
def test_what_forbids_a_binding_between_two_attempts_is_heeded(what: str, plugins: bool) -> None:
    nodes, leader, pods = Watched().listing(node("n")), Leader(), Pods().showing(pod("one"))

    def between() -> None:
        if what == "lead":
            leader.loses()
        elif what == "full":
            guard.said = "no room"
        elif what == "cordoned":
            cordoned = node("n") | {"spec": {"unschedulable": True}}
            nodes.store.apply(watch_event("MODIFIED", cordoned))
        else:
            nodes.store.apply(watch_event("DELETED", node("n")))

    binder = RetriedOnce(between=between)
    binding = BindingPlugins(reserve=[Steps()])
    guard = Guards()
    profile = Profile(
        "default-scheduler" if plugins else "plain", binding=binding, needs_leader=True
    )
    verbs = make_verbs(
        Profiles.of([profile], pass_through=[] if plugins else ["default-scheduler"]),
        watched=nodes,
        pods=pods,
        binder=binder,
        leader=leader,
    )
    verbs.bind._guard = guard  # type: ignore[assignment]
    asked = {"PodName": "one", "PodNamespace": "ml", "PodUID": "uid-of-one", "Node": "n"}
    answer = json.loads(asyncio.run(verbs.bind(json.dumps(asked).encode())))
    assert answer["Error"]
    assert (binder.posts, pods.assumed()) == (1, [])


def test_a_bind_plugin_does_not_outlive_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubextend.profile.binding_cycle._LOOK_S", 0.0)
    bound: list[str] = []

    class Binds:
        name = "Binds"

        async def bind(self, _state: CycleState, of: core.Pod, _node: str) -> Status:
            leader.loses()
            await asyncio.Event().wait()
            bound.append(of.name)
            return Status.success()

    leader, pods = Leader(), Pods().showing(pod("one"))
    profile = Profile(
        "default-scheduler", binding=BindingPlugins(bind=[Binds()]), needs_leader=True
    )
    verbs = make_verbs(
        Profiles.of([profile]),
        watched=Watched().listing(node("n")),
        pods=pods,
        binder=Binder(),
        leader=leader,
    )
    asked = {"PodName": "one", "PodNamespace": "ml", "PodUID": "uid-of-one", "Node": "n"}
    bind = asyncio.wait_for(verbs.bind(json.dumps(asked).encode()), PATIENT_S)
    answer = json.loads(asyncio.run(bind))
    assert (answer["Error"], bound, pods.assumed()) == (NOT_LEADER, [], [])


def test_a_lead_that_lasts_until_the_binding_is_posted_is_enough() -> None:
    world = World(leader=LeadsFor(looks=6))
    assert asyncio.run(world.bind()) == ""
    assert len(world.binder.bound) == 1


def test_an_earlier_term_leaves_no_attempt_and_no_rejection() -> None:
    async def scenario() -> None:
        assert world.filter()["Error"] == ""
        two = core.PodStore().apply(watch_event("ADDED", pod("two"))).pod
        assert two is not None
        world.verbs.unplaced.reject_permit(two, Status.unschedulable("no"))
        assert len(world.verbs.unplaced) == 2
        world.verbs.cease_to_lead(NOT_LEADER)
        assert len(world.verbs.unplaced) == 0
        assert world.verbs.unplaced.why_not_tried(two) is None

    world = World()
    run(scenario())


def test_a_leader_wakes_what_the_leader_before_left_unschedulable_once_in_each_term() -> None:
    world = World()
    parked = pod("parked")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    world.pods.store.apply(watch_event("ADDED", parked | {"status": {"conditions": [condition]}}))
    world.leader.loses()
    world.verbs.wake_due()
    assert world.activator.woken == []
    world.leader.wins()
    world.leader.fresh = False
    world.verbs.wake_due()
    assert world.activator.woken == []
    world.leader.fresh = True
    world.verbs.wake_due()
    world.verbs.wake_due()
    assert world.activator.woken == ["parked"]
    world.leader.wins()
    world.verbs.wake_due()
    assert world.activator.woken == ["parked"] * 2
