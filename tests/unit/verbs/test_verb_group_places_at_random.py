"""Random pod groups and lone pods on nodes with few seats, against a slow model of kube-scheduler.

The model knows each pod on each node, also those that kube-scheduler has assumed for a member in
the present pass, and looks at every node for every member.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from group_world import FULL, Cluster, Room

from kubextend import core
from kubextend.errors import ClusterError

WORLDS = 100
STEPS = 25


@dataclass
class Likes:
    """Scores each node for each pod by a table."""

    scores: dict[tuple[str, str], int]
    name: str = "Likes"

    def score_nodes(self, _state: object, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        return [self.scores[pod.name, node] for node in nodes.names]


@dataclass
class Model:
    """What a scheduler would do that knows everything.

    Attributes:
        seats: how many pods each node takes, in the order of the nodes.
        scores: the score of each node for each pod.
        bound: the node of each bound pod.
    """

    seats: dict[str, int]
    scores: dict[tuple[str, str], int]
    bound: dict[str, str] = field(default_factory=dict)

    def fits(self, taken: dict[str, str]) -> list[str]:
        there = Counter([*self.bound.values(), *taken.values()])
        return [node for node, seats in self.seats.items() if there[node] < seats]

    def place(self, order: Sequence[str]) -> dict[str, str]:
        """Return the places of a pass, which ends at the first member without a node."""
        places: dict[str, str] = {}
        for name in order:
            fits = self.fits(places)
            if not fits:
                break
            best = max(self.scores[name, node] for node in fits)
            places[name] = next(node for node in fits if self.scores[name, node] == best)
        return places


class World:
    """A cluster with groups of pods, each group with its members in kube-scheduler's order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        seats = {f"n{number}": rng.randint(0, 2) for number in range(rng.randint(1, 6))}
        self.groups: dict[str, list[str]] = {}
        self.lone: list[str] = []
        for number in range(rng.randint(1, 4)):
            self.groups[f"g{number}"] = [f"g{number}-{at}" for at in range(rng.randint(1, 5))]
        self.lone = [f"lone-{number}" for number in range(rng.randint(0, 4))]
        pods = [*self.lone, *(name for names in self.groups.values() for name in names)]
        scores = {(name, node): rng.choice([0, 50, 51, 100]) for name in pods for node in seats}
        self.model = Model(seats, scores)
        likes: Any = [(Likes(scores), 1)]
        self.cluster = Cluster(nodes=list(seats), room=Room(dict(seats)), score=likes)
        self.cluster.create(self.lone, group="")
        for group, names in self.groups.items():
            self.cluster.create(names, group)

    def try_group(self) -> None:
        """Have kube-scheduler try a group, which ends with all of its binds or with none."""
        group = self.rng.choice(list(self.groups))
        order = [name for name in self.groups[group] if name not in self.model.bound]
        for _ in range(self.rng.choice([1, 1, 2])):
            # A dry run follows at once on an attempt that failed.
            expected = self.model.place(order)
            assert self.cluster.filter_passes(order) == expected
        if self.rng.random() < 0.2:
            # An in-tree filter rejects a member that kubextend is not asked about.
            expected = {}
        if order and len(expected) == len(order):
            self.bind(expected)
        # The next attempt is a second away at least.
        self.cluster.clock.now_s += 1

    def bind(self, places: dict[str, str]) -> None:
        for name in self.rng.sample(list(places), len(places)):
            refused = self.rng.random() < 0.1
            self.cluster.binder.error = ClusterError("refused") if refused else None
            assert self.cluster.bind(name, places[name]) == ("refused" if refused else "")
            if not refused:
                self.model.bound[name] = places[name]
                if self.rng.random() < 0.5:
                    self.cluster.seen_bound(name, places[name])
        self.cluster.binder.error = None

    def try_lone(self) -> None:
        left = [name for name in self.lone if name not in self.model.bound]
        if left:
            name = self.rng.choice(left)
            fits = self.model.fits({})
            assert self.cluster.filter(name) == fits
            if fits:
                node = self.rng.choice(fits)
                assert self.cluster.bind(name, node) == ""
                self.model.bound[name] = node

    def refuse_lone(self) -> None:
        """Bind a pod to a full node, as a kube-scheduler would that asked too early."""
        left = [name for name in self.lone if name not in self.model.bound]
        full = [node for node in self.model.seats if node not in self.model.fits({})]
        if left and full:
            assert self.cluster.bind(self.rng.choice(left), self.rng.choice(full)) == FULL

    def delete(self) -> None:
        group = self.rng.choice(list(self.groups))
        if self.groups[group]:
            name = self.rng.choice(self.groups[group])
            self.groups[group].remove(name)
            self.model.bound.pop(name, None)
            self.cluster.delete(name)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_each_pass_gives_members_the_nodes_that_a_scheduler_with_all_knowledge_gives_them(
    seed: int,
) -> None:
    world = World(random.Random(seed))
    steps = [world.try_group, world.try_group, world.try_lone, world.refuse_lone, world.delete]
    for _ in range(STEPS):
        world.rng.choice(steps)()
        there = Counter(world.model.bound.values())
        assert all(there[node] <= seats for node, seats in world.model.seats.items())
    world.cluster.clock.now_s += 601
    world.cluster.verbs.wake_due()
    assert len(world.cluster.verbs._places) == 0
