"""What makes a replica the leader that decides: its Lease, the label of its pod, and its watch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from election_world import COLLECTION, World, unreachable

from kubextend.cluster.api_call import Call, RefusedError
from kubextend.cluster.leader import LABEL, Leader, PodName

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

NOT_LEADER = "this replica does not lead"
POD = "/api/v1/namespaces/kubextend-system/pods/a"


@dataclass
class Api:
    """One pod, whose label every patch sets or removes, beside the leases of the election.

    Attributes:
        world: the leases.
        labels: the value of each patch, in order.
        errors: raised by the next patches in place of an answer.
        version: the resourceVersion of the last patch.
    """

    world: World
    labels: list[str | None] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    version: int = 100

    def request(self, call: Call) -> bytes:
        if call.path.startswith(COLLECTION):
            return self.world.leases.request(call)
        assert (call.method, call.path) == ("PATCH", POD)
        if self.errors:
            raise self.errors.pop(0)
        self.version += 1
        self.labels.append(dict(call.body or {})["metadata"]["labels"][LABEL])  # type: ignore[index]
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}}).encode()

    @property
    def is_labelled(self) -> bool:
        return bool(self.labels) and self.labels[-1] == "true"


@dataclass
class Work:
    """The verbs of the replica."""

    ready: bool = True
    busy: bool = False
    ceased: list[str] = field(default_factory=list)

    def is_ready(self) -> bool:
        return self.ready

    def is_busy(self) -> bool:
        return self.busy

    def cease(self, why: str) -> None:
        self.ceased.append(why)


@dataclass
class Watch:
    """A watch of pods that has come to a resourceVersion."""

    seen: int = 0

    def has_seen(self, version: int) -> bool:
        return self.seen >= version


class Replica:
    """A replica in an election whose turns the test takes."""

    def __init__(self, world: World, pods: Any = ...) -> None:
        self.clock = world.clock
        self.api = Api(world)
        self.work = Work()
        self.watch = Watch()
        self.election = world.candidate("a")
        self.stands = 0
        self.election.start = self._stand  # type: ignore[method-assign]
        cluster: Cluster = self.api  # type: ignore[assignment]
        watch = self.watch if pods is ... else pods
        pod = PodName("kubextend-system", "a")
        self.leader = Leader(cluster, self.election, pod, watch, self.work)

    def _stand(self) -> None:
        self.stands += 1

    def takes_over(self) -> None:
        """Win the election, label the pod, and see the label."""
        self.leader.turn()
        self.election.attempt()
        self.leader.turn()
        self.watch.seen = self.api.version
        assert self.leader.why_not() == ""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def replica(world: World) -> Replica:
    return Replica(world)


def test_a_replica_that_starts_removes_the_label_of_the_process_before(replica: Replica) -> None:
    assert replica.leader.why_not_ready() == (
        "the label kubextend.dev/leader is not yet removed from pod kubextend-system/a"
    )
    replica.leader.turn()
    assert replica.api.labels == [None]
    assert replica.leader.why_not_ready() == ""
    assert replica.leader.why_not() == NOT_LEADER
    replica.leader.turn()
    assert replica.api.labels == [None]


def test_a_replica_that_could_not_decide_does_not_stand_for_election(replica: Replica) -> None:
    replica.work.ready = False
    replica.leader.turn()
    assert replica.stands == 0
    replica.work.ready = True
    replica.leader.turn()
    replica.leader.turn()
    assert replica.stands == 1


def test_a_replica_that_may_not_patch_its_pod_does_not_stand_for_election(
    replica: Replica,
) -> None:
    replica.api.errors += [unreachable()]
    replica.leader.turn()
    assert replica.stands == 0
    replica.leader.turn()
    assert replica.stands == 1


def test_a_new_leader_decides_once_its_watch_shows_its_own_label(replica: Replica) -> None:
    replica.leader.turn()
    replica.election.attempt()
    assert replica.leader.why_not() == (
        "this replica has begun to lead, and its pod has no label yet"
    )
    replica.watch.seen = replica.api.version
    replica.leader.turn()
    # Removed and set, so that the label is a change that every watch shows.
    assert replica.api.labels == [None, None, "true"]
    assert replica.leader.why_not() == (
        "this replica has begun to lead, and its watch of pods has not caught up yet"
    )
    replica.watch.seen = replica.api.version - 1
    assert not replica.leader.leads
    replica.watch.seen = replica.api.version
    assert replica.leader.leads


def test_a_leader_says_since_when_it_leads(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubextend.cluster.election.time.time", lambda: 1_000.0)
    assert replica.leader.leads_since_s is None
    replica.takes_over()
    monkeypatch.setattr("kubextend.cluster.election.time.time", lambda: 2_000.0)
    replica.election.attempt()
    assert replica.leader.leads_since_s == 1_000.0


def test_a_watch_that_begins_anew_ends_no_term(replica: Replica) -> None:
    replica.takes_over()
    replica.watch.seen = 0
    assert replica.leader.why_not() == ""


def test_a_leader_without_a_watch_of_pods_decides_when_its_pod_has_the_label(world: World) -> None:
    replica = Replica(world, pods=None)
    replica.leader.turn()
    replica.election.attempt()
    assert not replica.leader.leads
    replica.leader.turn()
    assert replica.leader.leads


def test_a_leader_whose_lease_lapses_ceases_by_its_own_clock(replica: Replica) -> None:
    replica.takes_over()
    replica.clock.pass_s(9.9)
    assert replica.leader.left_s() == pytest.approx(0.1)
    assert (replica.leader.why_not(), replica.leader.why_over(1)) == ("", "")
    replica.clock.pass_s(0.1)
    # Nobody had to notice: a process that was paused decides nothing when it goes on.
    assert replica.leader.why_not() == NOT_LEADER
    assert replica.leader.why_over(1) == NOT_LEADER
    assert replica.work.ceased == []
    replica.leader.turn()
    assert replica.work.ceased == [NOT_LEADER]
    assert not replica.api.is_labelled
    replica.leader.turn()
    assert replica.work.ceased == [NOT_LEADER]


def test_a_pod_that_keeps_the_label_of_a_lapsed_leader_is_not_ready(replica: Replica) -> None:
    replica.takes_over()
    replica.clock.pass_s(10)
    replica.api.errors += [unreachable()]
    replica.leader.turn()
    assert replica.leader.why_not_ready() == (
        "the label kubextend.dev/leader is not yet removed from pod kubextend-system/a:"
        f" {unreachable()}"
    )
    replica.leader.turn()
    assert replica.leader.why_not_ready() == ""
    assert not replica.api.is_labelled


def test_a_lead_that_was_lost_and_won_again_between_two_looks_is_a_new_one(
    replica: Replica,
) -> None:
    replica.takes_over()
    replica.clock.pass_s(20)
    replica.election.attempt()
    assert replica.election.leads
    assert replica.leader.why_over(1) == NOT_LEADER
    assert replica.leader.why_not() != ""
    replica.leader.turn()
    assert replica.work.ceased == [NOT_LEADER]
    # The label was there all the time, and its second setting is a change all the same.
    assert replica.api.labels[-2:] == [None, "true"]
    assert replica.leader.why_not() != ""
    replica.watch.seen = replica.api.version
    assert (replica.leader.why_not(), replica.leader.why_over(2)) == ("", "")


def test_a_leader_without_its_label_decides_nothing_and_tries_again(
    replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    replica.leader.turn()
    replica.election.attempt()
    call = Call("PATCH", "a", 1.0, right="patch on pods of this namespace")
    replica.api.errors += [RefusedError(call, 403, "no")] * 2
    replica.leader.turn()
    assert replica.leader.turn() == 1.0
    assert not replica.leader.leads
    (line,) = caplog.messages
    assert line == (
        "cannot set the label kubextend.dev/leader, trying again: PATCH a: 403 no; grant patch on"
        " pods of this namespace"
    )
    replica.leader.turn()
    replica.watch.seen = replica.api.version
    assert replica.leader.leads


def test_an_answer_without_a_version_is_no_label(replica: Replica) -> None:
    replica.takes_over()
    replica.clock.pass_s(10)
    replica.election.attempt()
    replica.api.request = lambda call: b'{"metadata": {}}'  # type: ignore[method-assign]
    replica.leader.turn()
    assert not replica.leader.leads


def test_a_leader_that_resigns_lets_its_binds_end_and_then_gives_the_lease_back(
    world: World, replica: Replica
) -> None:
    replica.takes_over()
    replica.work.busy = True
    replica.leader.resign()
    assert replica.leader.why_not() == NOT_LEADER
    # What has begun goes on.
    assert replica.leader.why_over(1) == ""
    replica.leader.turn()
    assert not replica.api.is_labelled
    assert world.leases.spec["holderIdentity"] == "a"
    replica.work.busy = False
    replica.leader.turn()
    assert world.leases.spec["holderIdentity"] == ""
    other = world.candidate("b")
    other.attempt()
    assert other.leads
    assert replica.leader.why_over(1) == NOT_LEADER


def test_a_leader_that_resigns_is_not_ready_until_its_label_is_removed(replica: Replica) -> None:
    replica.takes_over()
    assert replica.leader.why_not_ready() == ""
    replica.leader.resign()
    assert "is not yet removed" in replica.leader.why_not_ready()
    replica.leader.turn()
    assert replica.leader.why_not_ready() == ""


def test_a_leader_that_cannot_remove_its_label_gives_the_lease_back_all_the_same(
    world: World, replica: Replica
) -> None:
    replica.takes_over()
    replica.api.errors += [unreachable()]
    replica.leader.resign()
    replica.leader.turn()
    assert replica.api.is_labelled
    assert replica.leader.why_not_ready() != ""
    assert world.leases.spec["holderIdentity"] == ""


def test_a_leader_that_ends_while_a_pod_may_be_bound_keeps_the_lease_until_it_lapses(
    world: World, replica: Replica
) -> None:
    replica.takes_over()
    replica.work.busy = True
    replica.leader.stop()
    assert not replica.api.is_labelled
    assert world.leases.spec["holderIdentity"] == "a"


def test_a_replica_that_ends_never_stands_for_election(replica: Replica) -> None:
    replica.leader.stop()
    assert replica.stands == 0
    assert replica.api.labels == [None]
