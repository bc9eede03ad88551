"""A plugin says the same in a process of its own as it says in this one."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from isolation_world import (
    ODD,
    RAISED,
    Odd,
    OddAfterwards,
    OddEach,
    OneByOne,
    Remembers,
    Zones,
    ZonesArgs,
    full,
    isolated,
    named,
    node,
    pod,
    profile_with,
    read,
)

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.profile import Profile

Pair = tuple[Profile, Profile]
Request = tuple[core.Pod, core.Nodes]


def pair_of(plugin_class: type[Any], *args: Any) -> Iterator[Pair]:
    """The plugin in this process, and in its own."""
    here = profile_with(plugin_class(*args), plugin_class)
    with isolated(plugin_class, *args) as plugin:
        yield here, profile_with(plugin, plugin_class)


@pytest.fixture(scope="module")
def zones() -> Iterator[Pair]:
    yield from pair_of(Zones, ZonesArgs(zone="b"))


@pytest.fixture(scope="module")
def one_by_one() -> Iterator[Pair]:
    yield from pair_of(OneByOne)


@pytest.fixture(scope="module")
def remembers() -> Iterator[Pair]:
    yield from pair_of(Remembers)


@pytest.fixture(scope="module")
def odd() -> Iterator[Pair]:
    yield from pair_of(Odd)


@pytest.fixture(scope="module")
def odd_each() -> Iterator[Pair]:
    yield from pair_of(OddEach)


@pytest.fixture(scope="module")
def odd_afterwards() -> Iterator[Pair]:
    yield from pair_of(OddAfterwards)


def told(rejections: list[Rejection]) -> list[Any]:
    return [
        (rejection.nodes.indices(), rejection.status.code, rejection.status.reason)
        for rejection in rejections
    ]


def caught(call: Callable[[], Any]) -> Any:
    """What the call returns, or where and how its plugin failed."""
    try:
        return call()
    except PluginError as error:
        # What cannot be written reaches the other process escaped.
        text = error.message.encode(errors="backslashreplace")
        return type(error), error.facts, text


def attempt(profile: Profile, of: core.Pod, nodes: core.Nodes) -> list[Any]:
    """What becomes of the pod, from PreFilter to NormalizeScore."""
    state = CycleState()
    seen: list[Any] = []

    def filtered() -> Any:
        outcome = profile.find_nodes_that_fit(state, of, nodes)
        if not outcome.kept.any():
            seen.append(profile.run_post_filter_plugins(state, of, outcome.rejections))
        return outcome.kept.indices(), told(outcome.rejections)

    def scored() -> Any:
        for plugin in profile.pre_score:
            profile.run_pre_score_plugin(plugin, state, of, nodes)
        skipped = state.skip_score_plugins
        return skipped, [
            list(profile.run_score_plugin(plugin, state, of, nodes))
            for plugin, _ in profile.score
            if plugin.name not in skipped
        ]

    seen += [caught(filtered), state.skip_filter_plugins, caught(scored)]
    return seen


def assert_same(pair: Pair, of: core.Pod, nodes: core.Nodes) -> None:
    here, there = pair
    assert attempt(there, of, nodes) == attempt(here, of, nodes)


def some_node(chance: random.Random, name: str) -> dict[str, Any]:
    taints = [{"key": "k", "effect": "NoSchedule"}] if chance.random() < 0.2 else []
    return node(
        name,
        chance.choice(["a", "b", "cc", "ddd"]),
        cpu=chance.choice(["2", "2999m", "3", "64"]),
        memory=chance.choice(["1Gi", "64Gi", "1Ti"]),
        unschedulable=chance.random() < 0.1,
        taints=taints,
    )


def events(chance: random.Random, names: list[str]) -> Iterator[bytes]:
    for _ in range(chance.randrange(6)):
        kind = "DELETED" if chance.random() < 0.3 else "MODIFIED"
        yield json.dumps({"type": kind, "object": some_node(chance, chance.choice(names))}).encode()


def asked_for(chance: random.Random, names: list[str]) -> list[str]:
    return chance.sample(names, chance.randrange(len(names) + 1))


def names_mode(chance: random.Random) -> Iterator[Request]:
    """Nodes that a watch changes, some of them unknown."""
    names = [f"n{number}" for number in range(30)]
    store = core.NodeStore()
    listed = {"metadata": {}, "items": [some_node(chance, name) for name in names[:20]]}
    store.replace(json.dumps(listed).encode())
    while True:
        for event in events(chance, names):
            store.apply(event)
        yield read(named(asked_for(chance, names), pod(**{"not": "cc"})), store)


def full_mode(chance: random.Random) -> Iterator[Request]:
    """Whole nodes, mostly those of the request before."""
    names = [f"n{number}" for number in range(30)]
    nodes = {name: some_node(chance, name) for name in names}
    store = core.NodeStore()
    while True:
        for name in chance.sample(names, 3):
            nodes[name] = some_node(chance, name)
        brought = [nodes[name] for name in asked_for(chance, names)]
        yield read(full(brought, pod(**{"not": "b a"})), store)


@pytest.mark.parametrize("mode", [names_mode, full_mode])
@pytest.mark.parametrize("plugin", ["zones", "one_by_one", "remembers"])
def test_answers_are_equal_while_nodes_change(
    plugin: str, mode: Callable[[random.Random], Iterator[Request]], request: pytest.FixtureRequest
) -> None:
    pair: Pair = request.getfixturevalue(plugin)
    requests = mode(random.Random(7))
    for _ in range(150):
        assert_same(pair, *next(requests))


@pytest.mark.parametrize("said", ["even", "nothing", "skip", "never"])
def test_pre_filter_narrows_skips_and_rejects(remembers: Pair, said: str) -> None:
    nodes = [node("n0"), node("n1", "b"), node("n2", "b"), node("n3")]
    assert_same(remembers, *read(full(nodes, pod(preFilter=said))))


def test_pre_score_skips(remembers: Pair) -> None:
    assert_same(remembers, *read(full([node("n0"), node("n1")], pod(preScore="skip"))))


def test_post_filter_is_told_whom_every_plugin_rejected(remembers: Pair) -> None:
    assert_same(remembers, *read(full([node("n0", "b"), node("n1", "b")])))


@pytest.mark.parametrize("nodes", [0, 2])
@pytest.mark.parametrize("say", [*ODD, *RAISED])
@pytest.mark.parametrize("plugin", ["odd", "odd_each", "odd_afterwards"])
def test_what_a_plugin_may_not_answer_is_refused_in_the_same_words(
    plugin: str, say: str, nodes: int, request: pytest.FixtureRequest
) -> None:
    pair: Pair = request.getfixturevalue(plugin)
    brought = [node(f"n{number}") for number in range(nodes)]
    assert_same(pair, *read(full(brought, pod(say=say))))


def test_a_state_that_was_lost_is_made_anew_by_pre_filter(remembers: Pair) -> None:
    _, there = remembers
    of, nodes = read(full([node("n0"), node("n1")]))
    ((plugin, _),) = there.score
    state = CycleState()
    for pre_score in there.pre_score:
        there.run_pre_score_plugin(pre_score, state, of, nodes)
    # Two nodes and the one entry that PreFilter makes.
    assert list(there.run_score_plugin(plugin, state, of, nodes)) == [3, 3]


def test_a_pre_score_that_skips_takes_its_score_out_of_that_call_alone(remembers: Pair) -> None:
    _, there = remembers
    (plugin,) = there.pre_score
    state, skipped = CycleState(), []
    for said in ("skip", "", "skip"):
        # As prioritize begins, which may be asked several times in one attempt.
        state.skip_score_plugins = frozenset()
        of, nodes = read(full([node("n0")], pod(preScore=said)))
        there.run_pre_score_plugin(plugin, state, of, nodes)
        skipped.append(set(state.skip_score_plugins))
    assert skipped == [{"Remembers"}, set(), {"Remembers"}]
