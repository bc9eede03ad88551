"""What a PodStore leaves out of a pod is never read as if it were empty."""

from collections.abc import Callable

import core_world
import pytest
from pod_world import Json, event, pod, read

from kubextend import core

LONG = "x" * 5000

RARE: list[Callable[[core.Pod], object]] = [
    lambda pod: pod.tolerations,
    lambda pod: pod.annotations,
    lambda pod: pod.node_selector,
    lambda pod: pod.required_terms,
    lambda pod: core_world.watched(core_world.node("n")).nodes().tolerated_by(pod),
    lambda pod: core_world.watched(core_world.node("n")).nodes().affine_to(pod),
    lambda pod: core_world.watched(core_world.node("n")).nodes().preferred_by(pod),
]


def large(name: str = "large", node: str | None = "n") -> Json:
    return pod(name, node=node, spec={"tolerations": [{"key": "k", "value": LONG}]})


def kept(shown: Json) -> core.Pod:
    store = core.PodStore(max_pod_bytes=4096)
    found = store.apply(event("ADDED", shown)).pod
    assert found is not None
    return found


@pytest.mark.parametrize("part", RARE)
def test_a_part_that_was_too_large_to_keep_raises_and_says_of_which_pod(
    part: Callable[[core.Pod], object],
) -> None:
    found = kept(large())
    assert found.truncated
    for each in (found, core.Pod.unpack(found.pack())):
        with pytest.raises(core.TruncatedPodError, match="pod ns/large is kept without its"):
            part(each)


@pytest.mark.parametrize("part", RARE)
def test_a_pod_within_the_bound_and_one_of_a_request_can_be_read(
    part: Callable[[core.Pod], object],
) -> None:
    for found in (kept(pod("small", node="n")), read(large())):
        assert not found.truncated
        part(found)


def test_what_counts_on_a_node_is_kept_of_a_truncated_pod() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    store.apply(event("ADDED", large()))
    store.apply(event("ADDED", pod("small", node="n")))
    large_pod, small_pod = store.snapshot().pods_on("n")
    assert (large_pod.requests, large_pod.request("cpu")) == (small_pod.requests, 100)
    assert [container.name for container in large_pod.containers] == ["c"]
    assert (large_pod.labels, large_pod.scheduling_gates, large_pod.node_name) == ({}, [], "n")
    assert [found.name for found in store.truncated()] == ["large"]


def test_a_store_keeps_the_annotations_that_it_is_asked_for() -> None:
    shown = pod("p", node="n")
    shown["metadata"]["annotations"] = {"a": "1", "b": "2", "c": LONG}
    store = core.PodStore(annotations=["a", "b", "z"], max_pod_bytes=4096)
    found = store.apply(event("ADDED", shown)).pod
    assert found is not None
    assert found.annotations == {"a": "1", "b": "2"}
    shown["metadata"]["annotations"]["c"] = ""
    assert not store.apply(event("MODIFIED", shown)).changed
