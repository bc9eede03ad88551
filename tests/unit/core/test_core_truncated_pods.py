"""What a PodStore leaves out of a pod is never read as if it were empty."""

from collections.abc import Callable

import core_world
import pytest
from pod_world import Json, container, event, pod, read

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
    with pytest.raises(core.TruncatedPodError, match="pod ns/large is kept without its"):
        part(found)


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
    assert [found.name for found in store.pods() if found.truncated] == ["large"]


def many(number: int = 1000) -> list[str]:
    return [f"k{i}" for i in range(number)]


def labelled(name: str, **metadata: object) -> Json:
    shown = pod(name, node="n")
    shown["metadata"] |= {"labels": dict.fromkeys(many(), "v")} | metadata
    return shown


def asking_for(resources: list[str]) -> Json:
    requests = dict.fromkeys(resources, "1")
    return pod("large", node="n", spec={"containers": [container(**requests)]})


COMMON: list[tuple[Json, str, list[Callable[[core.Pod], object]]]] = [
    (labelled("large"), "labels", [lambda pod: pod.labels, lambda pod: pod.matches("a=b")]),
    (
        pod("large", spec={"containers": [container(name) for name in many()]}),
        "containers",
        [lambda pod: pod.containers, lambda pod: pod.init_containers],
    ),
    (
        asking_for([*many(), "cpu", "nvidia.com/gpu"]),
        "requests and overhead",
        [lambda pod: pod.requests, lambda pod: pod.overhead, lambda pod: pod.request("k7")],
    ),
]


@pytest.mark.parametrize(("shown", "parts", "asked"), COMMON)
def test_a_common_part_that_was_too_large_to_keep_raises_and_is_named(
    shown: Json, parts: str, asked: list[Callable[[core.Pod], object]]
) -> None:
    found = kept(shown)
    assert found.truncated
    for ask in asked:
        ask(read(shown))
        with pytest.raises(core.TruncatedPodError, match=f"ns/large is kept without its {parts}"):
            ask(found)
    with pytest.raises(core.TruncatedPodError):
        core.NativePlugin.named("RdmaAware").filter_nodes(
            found, core_world.watched(core_world.node("n")).nodes()
        )


def test_of_too_many_gates_the_first_are_kept() -> None:
    gates = [{"name": name} for name in many()]
    assert kept(pod("gated", spec={"schedulingGates": gates})).scheduling_gates == many(16)


def test_where_requests_are_not_known_a_node_has_no_room_for_that_resource() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    shown = asking_for([*many(), "cpu", "nvidia.com/gpu"])
    store.apply(event("ADDED", shown))
    store.apply(event("ADDED", pod("small", node="n", spec={"containers": [container(k7="2")]})))
    nodes = core_world.watched(core_world.node("n"), core_world.node("m")).nodes()
    for resource, expected in [
        ("cpu", [1000, 0]),
        ("nvidia.com/gpu", [1, 0]),
        ("pods", [2, 0]),
        ("k7", [1 << 53, 0]),
        ("nobody/names-it", [1 << 53, 0]),
    ]:
        snapshot = store.snapshot()
        assert list(snapshot.requested(nodes, resource)) == expected
        assert [info.requested(resource) for info in nodes.infos(snapshot)] == expected
    store.apply(event("DELETED", shown))
    assert list(store.snapshot().requested(nodes, "k7")) == [2, 0]


def test_the_sums_of_a_namespace_are_unknown_while_the_requests_of_one_of_its_pods_are() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    elsewhere = pod("elsewhere", node="m")
    elsewhere["metadata"]["namespace"] = "other"
    shown = asking_for([*many(), "cpu"])
    for each in (shown, pod("small", node="n"), elsewhere):
        store.apply(event("ADDED", each))
    assert store.snapshot().requested_in("other") == {"cpu": 100}
    with pytest.raises(core.TruncatedPodError, match="is kept without its requests"):
        store.snapshot().requested_in("ns")
    store.apply(event("DELETED", shown))
    assert store.snapshot().requested_in("ns") == {"cpu": 100}


def test_pods_of_a_namespace_are_not_found_by_label_while_those_of_one_are_not_known() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    small = pod("small")
    small["metadata"]["labels"] = {"app": "web"}
    elsewhere = pod("elsewhere")
    elsewhere["metadata"] |= {"namespace": "other", "labels": {"app": "web"}}
    for each in (small, elsewhere, labelled("large")):
        store.apply(event("ADDED", each))
    for _ in range(2):
        with pytest.raises(core.TruncatedPodError, match="ns/large is kept without its labels"):
            store.with_label("ns", "app", "web")
        assert [found.name for found in store.with_label("other", "app", "web")] == ["elsewhere"]
    store.apply(event("DELETED", labelled("large")))
    assert [found.name for found in store.with_label("ns", "app", "web")] == ["small"]


def test_a_store_keeps_the_annotations_that_it_is_asked_for() -> None:
    shown = pod("p", node="n")
    shown["metadata"]["annotations"] = {"a": "1", "b": "2", "c": LONG}
    store = core.PodStore(annotations=["a", "b", "z"], max_pod_bytes=4096)
    found = store.apply(event("ADDED", shown)).pod
    assert found is not None
    assert found.annotations == {"a": "1", "b": "2"}
    shown["metadata"]["annotations"]["c"] = ""
    assert not store.apply(event("MODIFIED", shown)).changed


# Each holds a thousand texts of 100 characters, whatever part of the pod they stand in.
PARTS: dict[str, Callable[[list[str]], Json]] = {
    "labels": lambda texts: {"metadata": {"labels": dict.fromkeys(texts, "")}},
    "annotations": lambda texts: {"metadata": {"annotations": dict.fromkeys(texts, "")}},
    "gates": lambda texts: {"spec": {"schedulingGates": [{"name": each} for each in texts]}},
    "tolerations": lambda texts: {"spec": {"tolerations": [{"key": each} for each in texts]}},
    "node selector": lambda texts: {"spec": {"nodeSelector": dict.fromkeys(texts, "")}},
    "overhead": lambda texts: {"spec": {"overhead": dict.fromkeys(texts, "1")}},
    "containers": lambda texts: {"spec": {"containers": [{"name": each} for each in texts]}},
    "init containers": lambda texts: {
        "spec": {"initContainers": [{"name": each} for each in texts]}
    },
    "requests": lambda texts: {
        "spec": {"containers": [{"resources": {"requests": dict.fromkeys(texts, "1")}}]}
    },
}


@pytest.mark.parametrize("part", PARTS)
def test_a_pod_takes_at_least_the_bytes_of_every_text_in_it(part: str) -> None:
    given = {"metadata": {"name": "p"}}
    texts = [f"{number:0>100}" for number in range(1000)]
    small, large = read(given), read(PARTS[part](texts))
    assert 0 < small.held_bytes < 2_000
    assert 100_000 < large.held_bytes < 600_000


def test_of_resources_that_nobody_asks_for_a_namespace_has_one_sum() -> None:
    store = core.PodStore()
    for number, resources in enumerate((["k2", "k3"], ["k1", "k3"], ["cpu"])):
        shown = asking_for(resources)
        shown["metadata"] |= {"name": f"p{number}", "uid": f"u{number}"}
        store.apply(event("ADDED", shown))
    snapshot = store.snapshot()
    every = snapshot.requested_in("ns")
    assert {"k1", "k2", "k3"} < every.keys()
    assert snapshot.requested_in("ns", {"k3", "unknown"}) == {
        "k3": every["k3"],
        "cpu": every["cpu"],
    }
    assert snapshot.requested_in("ns", {"cpu", "k1"}) == {
        "cpu": every["cpu"],
        "k1": every["k1"],
        "k2": every["k2"],
    }
    assert snapshot.requested_in("ns", set(every)) == every
    assert snapshot.requested_in("other", {"cpu"}) == {}
