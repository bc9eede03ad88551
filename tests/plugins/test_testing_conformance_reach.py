"""conformance tells an author which methods nothing reached, and takes what reaches them."""

import re
from typing import Any

import pytest

from kubextend import Status, testing

pytestmark = pytest.mark.slow


def raises(*_: Any) -> Any:
    message = "bad"
    raise ValueError(message)


def nothing(*_: Any) -> None: ...


class Gpus:
    """Looks at pods with a team alone, as a generated pod has none."""

    name = "Gpus"

    def pre_filter(self, _state: Any, pod: Any, _nodes: Any) -> Status | None:
        return None if pod.labels.get("team") else Status.unresolvable("no team")

    def filter(self, _state: Any, _pod: Any, node: Any) -> Status | None:
        if node.allocatable("nvidia.com/gpu"):
            return None
        return Status.unschedulable("no GPU")

    def score(self, _state: Any, _pod: Any, _node: Any) -> int:
        return 7

    def reserve(self, *_: Any) -> None: ...

    def unreserve(self, *_: Any) -> None: ...


TEAM = testing.pod_manifest("train", labels={"team": "red"})
GPU = testing.node_manifest("gpu-0", allocatable={"nvidia.com/gpu": "8"})
PLAIN = testing.node_manifest("plain-0")


def test_conformance_says_which_method_was_never_called_and_takes_what_reaches_it() -> None:
    with pytest.raises(AssertionError) as caught:
        testing.conformance(Gpus)
    reached_by = "pass pods= and nodes= that pass it"
    never = f"was never called: pre_filter rejected every generated pod; {reached_by}"
    assert f"filter {never}" in str(caught.value)
    assert f"score {never}" in str(caught.value)
    assert f"reserve {never}" in str(caught.value)
    with pytest.raises(AssertionError) as caught:
        testing.conformance(Gpus, pods=[TEAM])
    never = f"was never called: filter rejected every given pod; {reached_by}"
    assert f"reserve {never}" in str(caught.value)
    assert "- filter" not in str(caught.value)
    testing.conformance(Gpus, pods=[TEAM], nodes=[PLAIN, GPU])


def differing(**members: Any) -> type:
    return type("Gpus", (Gpus,), members)


FAULTS: dict[str, tuple[type, str]] = {
    "a filter that raises": (differing(filter=raises), "ValueError: bad"),
    "a score that raises": (differing(score=raises), "ValueError: bad"),
    "a normalize_score that raises": (differing(normalize_score=raises), "ValueError: bad"),
    "a permit that raises": (differing(permit=raises), "permit: ValueError: bad"),
    "a post_filter that raises": (differing(post_filter=raises), "PostFilter plugin: ValueError"),
    "a pre_score that raises": (differing(pre_score=raises), "PreScore plugin: ValueError"),
    "a pre_bind that raises": (differing(pre_bind=raises), "pre_bind: ValueError: bad"),
    "an unblock that raises": (differing(unblock=raises), "unblock: ValueError: bad"),
    "an unblock without a text": (differing(unblock=nothing), "unblock answers a text: None"),
    "a reason with the node's name": (
        differing(filter=lambda *given: Status.unschedulable(f"{given[3].name} has no GPU")),
        "names the node or the pod",
    ),
    "a reason with the pod's name": (
        differing(filter=lambda *given: Status.unschedulable(f"no GPU for {given[2].name}")),
        "names the node or the pod",
    ),
    "a reason of permit with the node's name": (
        differing(permit=lambda *given: Status.unschedulable(f"{given[3]} is full")),
        "names the node or the pod",
    ),
    "a pre_score that skips": (
        differing(pre_score=lambda *_: Status.skip()),
        "score was never called: pre_score skipped every given pod",
    ),
    "a pre_filter that skips": (
        differing(pre_filter=lambda *_: Status.skip()),
        "filter was never called: pre_filter skipped every given pod",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_conformance_finds_a_fault_in_every_method_that_given_pods_reach(fault: str) -> None:
    faulty, what = FAULTS[fault]
    with pytest.raises(AssertionError, match=re.escape(what)):
        testing.conformance(faulty, pods=[TEAM], nodes=[PLAIN, GPU], cases=6)


def test_conformance_has_no_complaint_of_a_reason_in_which_a_nodes_name_is_part_of_a_word() -> None:
    testing.conformance(Gpus, pods=[TEAM], nodes=[testing.make_node("a"), GPU], cases=6)


class ReadsItsObject:
    """Lets pods of a PodGroup pass that has the right object in an informer, or a bound member."""

    name = "ReadsItsObject"
    informers = ("configmaps",)
    needs_pods = True

    def __init__(self, handle: Any) -> None:
        self._informer = handle.informer("configmaps")

    def pre_filter(self, _state: Any, pod: Any, _nodes: Any) -> Status | None:
        found = self._informer.get(pod.namespace, "open")
        return None if found else Status.unresolvable("closed")

    def filter(self, _state: Any, _pod: Any, node: Any) -> Status | None:
        return (
            None if "friend" in [pod.name for pod in node.pods] else Status.unschedulable("alone")
        )

    def permit(self, *_: Any) -> None: ...


def test_conformance_takes_the_objects_of_informers_and_pods_that_are_on_nodes() -> None:
    given = {"objects": {"configmaps": [{"metadata": {"namespace": "default", "name": "open"}}]}}
    with pytest.raises(AssertionError, match="filter was never called"):
        testing.conformance(ReadsItsObject, cases=6)
    with pytest.raises(AssertionError, match="permit was never called: filter rejected"):
        testing.conformance(ReadsItsObject, **given, cases=6)
    friend = testing.make_pod("friend", node_name="node-0")
    testing.conformance(ReadsItsObject, pods=[friend], **given, cases=6)


def test_a_cluster_says_which_methods_were_called() -> None:
    cluster = testing.Cluster(Gpus, nodes=[GPU, PLAIN])
    cluster.schedule(testing.make_pod("p"))
    assert cluster.called == {("Gpus", "PreFilter")}
    cluster.schedule(TEAM)
    assert cluster.called >= {("Gpus", "Filter"), ("Gpus", "Reserve")}
