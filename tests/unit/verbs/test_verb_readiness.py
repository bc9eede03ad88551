"""May a verb decide now? What each verb answers while something that plugins look at is missing."""

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from verb_world import (
    Binder,
    Pods,
    Watched,
    full_request,
    names_request,
    node,
    pod,
    preempt_request,
    watch_event,
)

from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from make_verbs import make_verbs


@dataclass
class Everywhere:
    """A plugin at every point; it writes down whether it was asked anything."""

    needs_pods: bool = False
    name: str = "Everywhere"
    asked: int = 0

    def _answer(self) -> None:
        self.asked += 1

    def filter(self, *_: Any) -> Status | None:
        return self._answer()

    def score(self, *_: Any) -> int:
        self._answer()
        return 7

    async def pre_bind(self, *_: Any) -> None:
        self._answer()


@dataclass
class World:
    nodes: bool = True
    pods: bool = True
    started: bool = True
    needs_pods: bool = False

    def __post_init__(self) -> None:
        self.plugin = Everywhere(self.needs_pods)
        self.binder = Binder()
        self.pod_source = Pods(self.pods)
        self.pod_source.store.apply(watch_event("ADDED", pod()))
        self.watched = Watched(self.nodes).listing(node("n"))
        profile = Profile(
            "default-scheduler",
            filter=[self.plugin],
            score=[(self.plugin, 10)],
            binding=BindingPlugins(pre_bind=[self.plugin]),
            pods=self.pod_source.store.snapshot,
        )
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=self.watched,
            pods=self.pod_source,
            binder=self.binder,
            not_started=self.not_started,
        )

    def not_started(self) -> Iterable[str]:
        return [] if self.started else ["Everywhere", "Other"]

    def answers(self) -> list[Any]:
        """Of filter, prioritize, preempt and bind."""
        binding = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}
        return [
            json.loads(bytes(answer))
            for answer in (
                self.verbs.filter(names_request(["n"])),
                self.verbs.prioritize(names_request(["n"])),
                self.verbs.preempt(preempt_request({"n": ["u"]})),
                asyncio.run(self.verbs.bind(json.dumps(binding).encode())),
            )
        ]


NODES = "kubextend is not ready: the nodes are not listed yet"
PODS = "kubextend is not ready: the pods are not listed yet"
STARTED = "kubextend is not ready: not started yet: Everywhere"


def missing(nodes: bool, pods: bool, started: bool, needs_pods: bool) -> str:
    """The rule: nodes first, pods where the profile needs them, then its own plugins."""
    if not nodes:
        return NODES
    if needs_pods and not pods:
        return PODS
    return "" if started else STARTED


@pytest.mark.parametrize("given", list(product([True, False], repeat=4)))
def test_every_verb_decides_only_when_all_is_there_that_its_profile_needs(
    given: tuple[bool, bool, bool, bool],
) -> None:
    why = missing(*given)
    world = World(*given)
    filtered, scores, evictions, bound = world.answers()
    if why:
        assert (filtered["Error"], filtered["NodeNames"], filtered["FailedNodes"]) == (
            why,
            None,
            None,
        )
        assert scores == []
        assert evictions == {"NodeNameToMetaVictims": {}}
        assert bound == {"Error": why}
        assert world.plugin.asked == 0
        assert world.binder.bound == []
    else:
        assert filtered["NodeNames"] == ["n"]
        assert scores == [{"Host": "n", "Score": 7}]
        assert list(evictions["NodeNameToMetaVictims"]) == ["n"]
        assert bound == {"Error": ""}


def test_a_plugin_that_counts_pods_waits_for_the_nodes_in_full_mode_too() -> None:
    world = World(nodes=False, needs_pods=True)
    assert json.loads(world.verbs.filter(full_request([node("n")])))["Error"] == NODES
    assert World(nodes=False).verbs.filter(full_request([node("n")])).count(b'"Error":""') == 1


def test_what_is_missing_is_logged_once_and_that_it_is_there_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="kubextend.verbs.readiness")
    world = World(pods=False, needs_pods=True)
    for _ in range(3):
        world.verbs.filter(names_request(["n"]))
    world.pod_source.synced = True
    for _ in range(3):
        world.verbs.filter(names_request(["n"]))
    assert [record.getMessage() for record in caplog.records] == [
        "filter decides nothing for profile default-scheduler: the pods are not listed yet",
        "filter decides for profile default-scheduler",
    ]


def test_readiness_lists_the_same_conditions() -> None:
    conditions = World(nodes=False, pods=False, started=False).verbs.readiness.conditions
    assert {name: why_not() for name, why_not in conditions.items()} == {
        "plugins-started": "not started yet: Everywhere, Other",
        "node-sync": "the nodes are not listed yet",
        "pod-sync": "the pods are not listed yet",
    }
    everything = World().verbs.readiness.conditions
    assert [why_not() for why_not in everything.values()] == ["", "", ""]
