"""conformance tells an author which methods nothing reached, and takes what reaches them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.wire import answers, raises

from kubextend import Status, testing

pytestmark = pytest.mark.slow


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
        testing.conformance(Gpus, cases=6)
    reached_by = "pass pods= and nodes= that pass it"
    never = f"was never called: pre_filter rejected every generated pod; {reached_by}"
    assert all(
        f"{method} {never}" in str(caught.value) for method in ("filter", "score", "reserve")
    )
    with pytest.raises(AssertionError) as caught:
        testing.conformance(Gpus, pods=[TEAM], cases=6)
    never = f"was never called: filter rejected every given pod; {reached_by}"
    assert f"reserve {never}" in str(caught.value)
    assert "- filter" not in str(caught.value)
    testing.conformance(Gpus, pods=[TEAM], nodes=[PLAIN, GPU], cases=6)


def rejecting(why: Callable[..., str]) -> Callable[..., Status]:
    """Return a method that rejects for a reason with the names of pod and node."""
    return lambda *given: Status.unschedulable(
        why(given[2].name, getattr(given[3], "name", given[3]))
    )


SKIPS, BAD = answers(Status.skip()), raises(ValueError("bad"))
NAMES = "names the node or the pod"
# Methods with a fault, and what is said of it.
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"filter": BAD}, "ValueError: bad"),
    ({"score": BAD}, "ValueError: bad"),
    ({"normalize_score": BAD}, "ValueError: bad"),
    ({"permit": BAD}, "permit: ValueError: bad"),
    ({"post_filter": BAD}, "PostFilter plugin: ValueError"),
    ({"pre_score": BAD}, "PreScore plugin: ValueError"),
    ({"pre_bind": BAD}, "pre_bind: ValueError: bad"),
    ({"unblock": BAD}, "unblock: ValueError: bad"),
    ({"unblock": answers(None)}, "unblock answers a text: None"),
    ({"filter": rejecting(lambda _, node: f"{node} has no GPU")}, NAMES),
    ({"filter": rejecting(lambda pod, _: f"no GPU for {pod}")}, NAMES),
    ({"permit": rejecting(lambda _, node: f"{node} is full")}, NAMES),
    ({"pre_score": SKIPS}, "score was never called: pre_score skipped every given pod"),
    ({"pre_filter": SKIPS}, "filter was never called: pre_filter skipped every given pod"),
]


@pytest.mark.parametrize(("methods", "what"), FAULTS)
def test_conformance_finds_a_fault_in_every_method_that_pods_reach(methods: Any, what: str) -> None:
    faulty = type("Gpus", (Gpus,), methods)
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
        found = "friend" in [pod.name for pod in node.pods]
        return None if found else Status.unschedulable("alone")

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
