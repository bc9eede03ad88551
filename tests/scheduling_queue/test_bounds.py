"""How long a neighbour's pods wait in a simulated cluster, while tenants do harm."""

import pytest
from tests.doors.queue_stories import Strategy
from tests.scheduling_queue.simulation import (
    NEIGHBOUR,
    OTHER_TENANT,
    TENANT,
    Makers,
    Outcome,
    Simulation,
)

BEST_EFFORT = Strategy.BEST_EFFORT_FIFO
PRIORITIES = pytest.mark.parametrize("priority", [0, 9])
RARE_NEIGHBOUR = (5.0, NEIGHBOUR, Outcome.BOUND, 0)

pytestmark = pytest.mark.slow


def p99(waited_s: list[float]) -> float:
    return waited_s[int(len(waited_s) * 0.99)]


def backlogs(every_s: float, priority: int) -> Makers:
    """Two namespaces have more pods than kube-scheduler can try, all older than a neighbour's."""
    return [(every_s, namespace, Outcome.BOUND, priority) for namespace in ("old", "older")]


@pytest.mark.parametrize(
    ("strategy", "bound_s"), [(BEST_EFFORT, 2.0), (Strategy.STRICT_FIFO, 60.0)]
)
def test_a_neighbour_does_not_wait_for_all_pods_of_a_tenant(
    strategy: Strategy, bound_s: float
) -> None:
    assert p99(Simulation(strategy).run()) <= bound_s
    # The tenant makes enough pods to matter.
    assert p99(Simulation(strategy, by_namespace=False, seconds=120.0).run()) > bound_s


@pytest.mark.parametrize("attempt_s", [0.05, 0.2, 0.5])
@PRIORITIES
def test_two_namespaces_keep_no_slow_kube_scheduler_from_a_neighbour(
    attempt_s: float, priority: int
) -> None:
    simulation = Simulation(BEST_EFFORT, seconds=60.0, attempt_s=attempt_s)
    waited_s = simulation.run([*backlogs(0.02, priority), RARE_NEIGHBOUR])
    assert waited_s[-1] <= 6 * attempt_s + 0.5


@PRIORITIES
def test_a_pause_of_kube_scheduler_is_over_when_it_ends(priority: int) -> None:
    simulation = Simulation(BEST_EFFORT, seconds=60.0, attempt_s=0.2, pauses_s=(20.3, 22.3))
    waited_s = simulation.run([*backlogs(0.04, priority), RARE_NEIGHBOUR])
    assert waited_s[-1] <= 5.0


@PRIORITIES
def test_slow_volumes_of_thirty_namespaces_do_not_stop_a_neighbour(priority: int) -> None:
    slow = [(10.0, f"slow-{number}", Outcome.SLOW_VOLUME, number % 5) for number in range(30)]
    simulation = Simulation(BEST_EFFORT, seconds=60.0, attempt_s=0.05)
    waited_s = simulation.run([*slow, (0.2, NEIGHBOUR, Outcome.BOUND, priority)])
    assert waited_s[-1] <= 10.0


@pytest.mark.parametrize("strategy", Strategy)
@PRIORITIES
@pytest.mark.parametrize("outcome", [Outcome.GANG, Outcome.INCOMPLETE_GANG])
def test_gangs_of_two_tenants_do_not_stop_a_neighbour(
    outcome: Outcome, priority: int, strategy: Strategy
) -> None:
    gangs = [(1.0, tenant, outcome, priority) for tenant in (TENANT, OTHER_TENANT)]
    alone: Makers = [(0.3, TENANT, Outcome.BOUND, 9), (1.0, NEIGHBOUR, Outcome.BOUND, 0)]
    assert Simulation(strategy, seconds=60.0).run([*gangs, *alone])[-1] <= 2.0


def test_a_gang_of_ten_thousand_does_not_stop_a_neighbour() -> None:
    simulation = Simulation(BEST_EFFORT, seconds=150.0, gang=10_000)
    gang: Makers = [(70.0, TENANT, Outcome.INCOMPLETE_GANG, 9)]
    waited_s = simulation.run([*gang, (1.0, NEIGHBOUR, Outcome.BOUND, 0)])
    assert waited_s[-1] <= 1.0
