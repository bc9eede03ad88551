"""What is done with the API, and what comes of it, is told on /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scripted_api import refusing

from kubextend import app, config
from kubextend.plugins import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scripted_api import ScriptedApi


@pytest.fixture
def following(kubeconfig: Path) -> Iterator[app.App]:
    """An app that follows nodes and pods, not started yet."""
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}],
    }
    built = app.build(config.parse(tree, known=IN_TREE))
    yield built
    built.stop()


def reading(built: app.App) -> Callable[..., float | None]:
    def value(name: str, **labels: str) -> float | None:
        built.metrics.render()
        return built.metrics.registry.get_sample_value(f"kubextend_{name}", labels)

    return value


def test_lists_watches_events_and_failures_of_all_reflectors_are_counted(
    api: ScriptedApi, following: app.App, eventually: Callable[..., None]
) -> None:
    value = reading(following)
    resources = ("nodes", "pods", "pods?status.phase=Succeeded")
    for resource in resources:
        assert value("reflector_synced", resource=resource) == 0
        assert value("reflector_age_seconds", resource=resource) is None
        assert value("reflector_lists_total", resource=resource) == 0
    api.put_node("n1")
    api.put_pod("a", "uid-a")
    api.fail("list", refusing(500, "InternalError"))
    following.follow()
    eventually(lambda: api.counts["watch"] == 3)
    api.put_pod("b", "uid-b")
    api.put_pod("c", "uid-c")
    eventually(lambda: value("reflector_events_total", resource="pods") == 2)

    def every(name: str) -> list[float]:
        found = [value(f"reflector_{name}", resource=each) for each in resources]
        return [each for each in found if each is not None]

    # The list that failed was that of whoever came first.
    assert sorted(every("lists_total")) == [1, 1, 2]
    assert sorted(every("failures_total")) == [0, 0, 1]
    assert every("watches_total") == [1, 1, 1]
    assert every("synced") == [1, 1, 1]
    assert all(0 <= age_s < 60 for age_s in every("age_seconds"))
    assert value("reflector_events_total", resource="nodes") == 0
    api.end_watches()
    eventually(lambda: sum(every("watches_total")) == api.counts["watch"] == 6)


def test_what_became_of_wake_ups_and_events_is_counted(
    api: ScriptedApi, following: app.App, eventually: Callable[..., None]
) -> None:
    value = reading(following)
    for name in "abc":
        api.put_pod(name, f"uid-{name}")
    following.follow()
    side: Any = following._cluster
    eventually(lambda: len(side.pods.store.pods()) == 3)
    a, b, c = sorted(side.pods.store.pods(), key=lambda pod: pod.name)
    api.delete_pod("c")
    api.fail("patch", refusing(403, "Forbidden"))
    side.activator.activate([a])
    eventually(lambda: value("activations_total", result="failed") == 1)
    side.activator.activate([b, c])
    eventually(lambda: value("activations_total", result="sent") == 1)
    eventually(lambda: value("activations_total", result="gone") == 1)
    assert value("activations_total", result="dropped") == 0

    side.events.waiting(a, "n1", ["Coscheduling"])
    eventually(lambda: value("held_pod_events_total", result="sent") == 1)
    api.fail("event", refusing(403, "Forbidden"))
    side.events.waiting(b, "n1", ["Coscheduling"])
    eventually(lambda: value("held_pod_events_total", result="failed") == 1)
    assert api.counts["event"] == 2


def test_without_an_api_there_is_nothing_to_tell_of_it() -> None:
    built = app.build(config.load(None, known=IN_TREE))
    text = built.metrics.render()[0].decode()
    assert "kubextend_waiting_pods 0.0" in text
    for name in ("kubextend_activations", "kubextend_held_pod_events", 'resource="'):
        assert name not in text
