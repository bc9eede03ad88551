"""PrioritySort and QOSSort, and the order of a queue as the author of its plugin tries it."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.stories import pod_of

from kubextend import testing
from kubextend.errors import PluginError
from kubextend.framework import QueuedPodInfo
from kubextend.plugins import PrioritySort, QOSSort

CLASSES = ("BestEffort", "Burstable", "Guaranteed")
Key = tuple[int | None, str, float]


def queued(priority: int | None, qos: str, timestamp: float) -> QueuedPodInfo:
    manifest: dict[str, Any] = testing.pod_manifest(priority=priority)
    manifest["status"]["qosClass"] = qos
    return QueuedPodInfo(pod_of(manifest), timestamp)


@pytest.mark.parametrize("plugin", [PrioritySort(), QOSSort()])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2, "BestEffort", 9.0), (1, "Guaranteed", 1.0)),
        ((1, "BestEffort", 9.0), (None, "Guaranteed", 1.0)),
        ((None, "BestEffort", 9.0), (-1, "Guaranteed", 1.0)),
        ((2_000_001_000, "BestEffort", 9.0), (-2_147_483_648, "Guaranteed", 1.0)),
        ((5, "Burstable", 1.0), (5, "Burstable", 1.5)),
        ((None, "Burstable", 1.0), (0, "Burstable", 2.0)),
    ],
)
def test_priority_goes_first_and_time_comes_last(plugin: Any, first: Key, second: Key) -> None:
    a, b = queued(*first), queued(*second)
    assert plugin.less(a, b) is True
    assert plugin.less(b, a) is False


def test_among_equal_priorities_qos_sort_goes_by_class_and_priority_sort_by_time() -> None:
    for late, early in itertools.combinations(CLASSES, 2):
        a, b = queued(7, early, 2.0), queued(7, late, 1.0)
        assert QOSSort().less(a, b) is True
        assert QOSSort().less(b, a) is False
        assert PrioritySort().less(a, b) is False
        assert PrioritySort().less(b, a) is True


@pytest.mark.parametrize("plugin", [PrioritySort(), QOSSort()])
def test_equal_pods_are_not_less_either_way(plugin: PrioritySort | QOSSort) -> None:
    for qos in CLASSES:
        a, b = queued(None, qos, 3.0), queued(0, qos, 3.0)
        assert plugin.less(a, b) is False
        assert plugin.less(b, a) is False
        assert plugin.less(a, a) is False


KEYS = st.tuples(
    st.sampled_from([None, -1, 0, 1, 1000]), st.sampled_from(CLASSES), st.sampled_from([1.0, 2.0])
)


@given(st.lists(KEYS, min_size=3, max_size=3), st.sampled_from([PrioritySort(), QOSSort()]))
def test_less_is_a_strict_weak_order(keys: list[Key], plugin: PrioritySort | QOSSort) -> None:
    a, b, c = (queued(*key) for key in keys)
    less = plugin.less
    assert not less(a, a)
    assert not (less(a, b) and less(b, a))
    if less(a, b) and less(b, c):
        assert less(a, c)
    if not (less(a, b) or less(b, a) or less(b, c) or less(c, b)):
        assert not less(a, c)
        assert not less(c, a)


@given(st.lists(KEYS, max_size=12))
def test_the_queue_goes_by_the_sorted_keys(keys: list[Key]) -> None:
    manifests = []
    for number, (priority, qos, second) in enumerate(keys):
        at = f"2030-01-01T00:00:0{second:.0f}Z"
        fields: dict[str, Any] = {"priority": priority, "creation_timestamp": at}
        manifest: dict[str, Any] = testing.pod_manifest(f"p{number:02}", **fields)
        manifest["status"]["qosClass"] = qos
        manifests.append(manifest)
    ranked = sorted(
        range(len(keys)),
        key=lambda at: (-(keys[at][0] or 0), -CLASSES.index(keys[at][1]), keys[at][2], at),
    )
    assert testing.queue_order(QOSSort, manifests) == [f"p{at:02}" for at in ranked]


TWO = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": TWO}, "Burstable"),
        ({"requests": TWO, "limits": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
    ],
)
def test_a_class_that_the_api_did_not_set_is_derived(resources: dict[str, Any], qos: str) -> None:
    containers = [{"name": "main", "resources": resources}]
    assert testing.make_pod(containers=containers).qos_class == qos
    assert testing.make_pod(resources=resources, containers=[{"name": "main"}]).qos_class == qos


class ByLabel:
    name = "ByLabel"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        return a.pod.labels["turn"] < b.pod.labels["turn"]


def test_pods_come_out_in_the_plugins_order_and_equal_ones_as_they_came() -> None:
    # Pods of any scheduler and manifests are taken.
    waiting: list[Any] = [
        make(name, labels={"turn": turn}, scheduler_name=f"of-{name}")
        for make in (testing.make_pod, testing.pod_manifest)
        for name, turn in {"c": "2", "b": "1", "a": "2", "d": "0"}.items()
    ]
    assert testing.queue_order(ByLabel, waiting) == [*"ddbbcaca"]
    assert testing.queue_order(ByLabel(), []) == []
    with pytest.raises(PluginError, match=r"ByLabel.*queueSort.*KeyError: 'turn'"):
        testing.queue_order(ByLabel, [testing.make_pod("a"), testing.make_pod("b")])
