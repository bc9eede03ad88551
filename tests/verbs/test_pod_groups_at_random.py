"""Random pod groups and lone pods on nodes with few seats, against a slow model of kube-scheduler.

The model knows each pod on each node, also those that kube-scheduler has assumed for a member in
the present pass, and looks at every node for every member.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.doors.wire import Binder, Plugin
from tests.verbs.groups import FULL, Room, Scheduler

from kubextend.errors import ClusterError

WORLDS = 60
STEPS = 25


@dataclass
class Model:
    """What a scheduler would do that knows the seats of each node, and each pod's scores."""

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
        for number in range(rng.randint(1, 4)):
            self.groups[f"g{number}"] = [f"g{number}-{at}" for at in range(rng.randint(1, 5))]
        self.lone = [f"lone-{number}" for number in range(rng.randint(0, 4))]
        pods = [*self.lone, *(name for names in self.groups.values() for name in names)]
        scores = {(name, node): rng.choice([0, 50, 51, 100]) for name in pods for node in seats}
        self.model, self.binder = Model(seats, scores), Binder()
        likes = Plugin("Likes", score=lambda _state, of, at: scores[of.name, at.name])
        self.scheduler = Scheduler(Room(seats), likes, nodes=list(seats), binder=self.binder)
        self.scheduler.create(self.lone, group="")
        for group, names in self.groups.items():
            self.scheduler.create(names, group)

    def try_group(self) -> None:
        """Have kube-scheduler try a group, which ends with all of its binds or with none."""
        group = self.rng.choice(list(self.groups))
        order = [name for name in self.groups[group] if name not in self.model.bound]
        for _ in range(self.rng.choice([1, 1, 2])):
            # A dry run follows at once on an attempt that failed.
            expected = self.model.place(order)
            assert self.scheduler.passes(order) == expected
        if self.rng.random() < 0.2:
            # An in-tree filter rejects a member that kubextend is not asked about.
            expected = {}
        if order and len(expected) == len(order):
            self.bind(expected)
        # The next attempt is a second away at least.
        self.scheduler.wire.clock.now_s += 1

    def bind(self, places: dict[str, str]) -> None:
        for name in self.rng.sample(list(places), len(places)):
            refused = self.rng.random() < 0.1
            self.binder.error = ClusterError("refused") if refused else None
            assert self.scheduler.bind(name, places[name]) == ("refused" if refused else "")
            if not refused:
                self.model.bound[name] = places[name]
                if self.rng.random() < 0.5:
                    self.scheduler.show_bound(name, places[name])
        self.binder.error = None

    def try_lone(self) -> None:
        left = [name for name in self.lone if name not in self.model.bound]
        if left:
            name = self.rng.choice(left)
            fits = self.model.fits({})
            assert self.scheduler.filter(name) == fits
            if fits:
                node = self.rng.choice(fits)
                assert self.scheduler.bind(name, node) == ""
                self.model.bound[name] = node

    def refuse_lone(self) -> None:
        """Bind a pod to a full node, as a kube-scheduler would that asked too early."""
        left = [name for name in self.lone if name not in self.model.bound]
        full = [node for node in self.model.seats if node not in self.model.fits({})]
        if left and full:
            assert self.scheduler.bind(self.rng.choice(left), self.rng.choice(full)) == FULL

    def delete(self) -> None:
        group = self.rng.choice(list(self.groups))
        if self.groups[group]:
            name = self.rng.choice(self.groups[group])
            self.groups[group].remove(name)
            self.model.bound.pop(name, None)
            self.scheduler.delete(name)


@pytest.mark.slow
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
    world.scheduler.wire.clock.now_s += 601
    world.scheduler.wire.wake_due()
    assert world.scheduler.wire.metric("kubextend_pod_group_members") == 0
