"""A real kube-scheduler with a profile that kubextend's configuration does not name any more."""

import json

import pytest

from .kubeapi import NewPool
from .stack import HIGH_COMM, NO_RDMA, NewStack, Stack, profile
from .workbench import until
from .workload import NewWorkload

OTHER = "was-ours"


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    return new_stack(
        "unknown",
        profile=profile("unknown", "HighCommPodFilter"),
        more_profiles=[profile(OTHER, "HighCommPodFilter")],
        # An Error of kubextend would place the pod.
        extender={"ignorable": True},
    )


def roll_out(stack: Stack, other: str, *passed: str) -> None:
    """Start kubextend with another name of its second profile."""
    changed = json.loads(stack.config.read_text())
    changed["profiles"][1]["schedulerName"] = other
    stack.config.write_text(json.dumps(changed | {"passThrough": passed}))
    stack.stop_kubextend()
    stack.start_kubextend()
    until(stack.is_ready, "kubextend is ready with the changed configuration")


def test_pods_of_a_renamed_profile_stay_pending_until_their_scheduler_is_passed_through(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(stack.scheduler_name, 2)
    ours, others = new_workload(stack, pool), new_workload(stack, pool, OTHER)
    # The filter judges both before the change.
    (rejected,) = others.create("rejected", 1, HIGH_COMM)
    assert NO_RDMA in others.until_pending(rejected)
    roll_out(stack, "renamed")
    errors = stack.attempts("error", OTHER)
    new = others.create("new", 3)
    said = f'2 no profile of kubextend is named "{OTHER}": its profiles are renamed, '
    for name in new:
        until(lambda: said in others.why_pending(name), f"{name} is rejected")  # noqa: B023
    ours.until_placed(ours.create("ours", 3))
    assert others.placed() == {}
    # A rejection is no Error, which kube-scheduler may ignore.
    assert stack.attempts("error", OTHER) == errors
    total = stack.counts().total
    counted = {"result": "unknown_scheduler", "verb": "filter"}
    assert total("kubextend_verb_requests_total", **counted) >= len(new)
    roll_out(stack, "renamed", OTHER)
    # Any pod that comes to a node makes kube-scheduler try the rejected ones again.
    ours.until_placed(ours.create("more", 1))
    others.until_placed([*new, rejected])
