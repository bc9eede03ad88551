"""Which attempt of a pod is found, and which one makes room."""

import asyncio
import json
from typing import Any

import pytest
from verb_world import Binder, Watched, full_request, names_request, node, pod, unplaced_pods

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import BindingPlugins, FilterOutcome, Profile, Profiles
from kubextend.verbs import Verbs
from make_verbs import make_verbs


def pod_named(name: str) -> core.Pod:
    found = core.read_args(names_request([], pod(name))).pod
    assert found is not None
    return found


def test_an_older_request_that_fails_leaves_the_newer_attempt_alone() -> None:
    attempts, asked = unplaced_pods(), pod_named("p")
    older, newer = attempts.begin(asked), attempts.begin(asked)
    attempts.drop(older)
    assert attempts.find(asked.uid) is newer
    attempts.drop(newer)
    assert attempts.find(asked.uid) is None


def test_the_attempts_kept_are_bounded_and_the_one_begun_first_goes() -> None:
    attempts = unplaced_pods(room_for=2)
    pods = {name: pod_named(name) for name in ("first", "second", "third")}
    for name in ("first", "second", "first", "third"):
        attempts.begin(pods[name])
    assert [name for name in pods if attempts.find(pods[name].uid)] == ["first", "third"]


def test_a_bind_takes_the_attempt_with_it() -> None:
    attempts, asked = unplaced_pods(), pod_named("p")
    begun = attempts.begin(asked)
    assert attempts.take(asked.uid) is begun
    assert attempts.take(asked.uid) is None


def test_pods_that_are_being_bound_or_left_no_node_push_out_no_attempt() -> None:
    attempts, first = unplaced_pods(room_for=2), pod_named("first")
    begun = attempts.begin(first)
    for number in range(4):
        other = attempts.begin(pod_named(f"other-{number}"))
        if number % 2:
            attempts.take(other.pod.uid)
        else:
            attempts.drop(other)
    assert attempts.find(first.uid) is begun


class Points:
    """PreFilter, PreScore and Reserve, which reads what PreScore wrote."""

    name = "Points"

    def __init__(self) -> None:
        self.attempts = 0
        self.read: list[object] = []

    def pre_filter(self, *_: Any) -> None:
        """Nothing to prepare."""

    def pre_score(self, state: CycleState, *_: Any) -> None:
        self.attempts += 1
        state.write("attempt", self.attempts)

    def score(self, *_: Any) -> int:
        return 1

    async def reserve(self, state: CycleState, *_: Any) -> None:
        self.read.append(state.read("attempt"))

    async def unreserve(self, *_: Any) -> None:
        """Nothing to give up."""


class NobodyToAsk:
    def get(self, *_: Any) -> None:
        raise AssertionError


def bind(verbs: Verbs) -> str:
    fields = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}
    error: str = json.loads(bytes(asyncio.run(verbs.bind(json.dumps(fields).encode()))))["Error"]
    return error


@pytest.mark.parametrize("filters", [False, True])
def test_reserve_reads_what_pre_score_wrote_in_the_last_attempt(filters: bool) -> None:
    plugin = Points()
    profile = Profile(
        "default-scheduler",
        pre_filter=[plugin] if filters else (),
        pre_score=[plugin],
        score=[(plugin, 1)],
        binding=BindingPlugins(reserve=[plugin]),
    )
    verbs = make_verbs(
        Profiles.of([profile]),
        watched=Watched().listing(node("n")),
        binder=Binder(),
        pod_reader=NobodyToAsk(),
    )
    for _ in range(3):
        verbs.filter(names_request(["n"]))
        verbs.prioritize(names_request(["n"]))
    assert bind(verbs) == ""
    assert plugin.read == [3]


class Panics(Profile):
    """The core panics in the middle of filter."""

    def find_nodes_that_fit(self, *_: Any) -> FilterOutcome:
        raise SystemError


def test_an_attempt_that_ends_in_a_failure_of_ours_leaves_no_state_behind() -> None:
    states = []

    class Prepares(Points):
        def pre_filter(self, state: CycleState, *_: Any) -> None:
            states.append(state)

    plugin = Prepares()
    profile = Panics("default-scheduler", pre_filter=[plugin], score=[(plugin, 1)])
    verbs = make_verbs(Profiles.of([profile]))
    body = full_request([node("n")])
    assert "failed internally" in json.loads(bytes(verbs.filter(body)))["Error"]
    verbs.prioritize(body)
    assert len(states) == 1
