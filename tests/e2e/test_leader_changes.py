"""The leader is killed or drained while pods with a counting plugin are placed.

It is cut off in the trial `leader-changes`.
"""

from collections.abc import Iterator

import pytest
from tests.trials.harness import Report
from tests.trials.leader_changes import Changes
from tests.trials.replicas import DRAINED, KILLED, Replicas

from .controlplane import ControlPlane

PODS = 60


@pytest.fixture(scope="module")
def changes(own_plane: ControlPlane) -> Iterator[Changes]:
    replicas = Replicas(own_plane)
    yield Changes(own_plane, replicas, PODS, Report())
    replicas.close()


@pytest.mark.parametrize("kind", [KILLED, DRAINED])
def test_every_pod_is_bound_once_and_no_place_is_taken_twice(kind: str, changes: Changes) -> None:
    changes.run(kind)
    # How long that took says as much about the machine: the trial `leader-changes` judges it.
    assert [fault for fault in changes.report.wrong if "no pod was bound" not in fault] == []
