"""The order of a queue, as the author of its plugin tries it."""

from typing import Any

import pytest

from kubextend import testing
from kubextend.errors import PluginError
from kubextend.framework import QueuedPodInfo


class ByLabel:
    """By the value of a label; what has none comes last."""

    name = "ByLabel"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        return a.pod.labels["turn"] < b.pod.labels["turn"]


def pods(**turns: str) -> list[testing.PodLike]:
    return [testing.make_pod(name, labels={"turn": turn}) for name, turn in turns.items()]


def test_pods_come_out_in_the_plugins_order_and_equal_ones_as_they_came() -> None:
    waiting = pods(c="2", b="1", a="2", d="0")
    assert testing.queue_order(ByLabel, waiting) == ["d", "b", "c", "a"]
    assert testing.queue_order(ByLabel(), []) == []


def test_pods_of_any_scheduler_and_manifests_are_taken() -> None:
    manifest: dict[str, Any] = testing.pod_manifest(
        "x", labels={"turn": "1"}, scheduler_name="another"
    )
    assert testing.queue_order(ByLabel, [*pods(y="2"), manifest]) == ["x", "y"]


def test_a_plugin_that_fails_raises_with_its_cause() -> None:
    with pytest.raises(PluginError, match=r"ByLabel.*queueSort.*KeyError: 'turn'"):
        testing.queue_order(ByLabel, [testing.make_pod("a"), testing.make_pod("b")])
