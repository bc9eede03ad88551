"""What a plugin gets by its Handle: informers it declares, Events, metrics, a logger."""

import logging
from typing import Any

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from tests.doors.stories import Plugin, page_of_metrics
from tests.doors.wire import Wire, raises

from kubextend import testing
from kubextend.errors import ConfigError, KubextendError
from kubextend.framework import CycleState, Handle, KubeObject
from kubextend.testing import make_node, make_pod

CLAIMS = "persistentvolumeclaims"


class Reads:
    name = "Reads"
    informers = (CLAIMS,)

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def filter(self, *_: Any) -> None: ...


def made(plugin: type[Any] = Reads) -> Any:
    return testing.Cluster(plugin).plugins[0]


def test_a_plugin_gets_the_informers_that_its_class_declares_and_no_other() -> None:
    assert made().handle.informer(CLAIMS).list() == []
    with pytest.raises(KubextendError) as caught:
        made().handle.informer("services")
    assert str(caught.value) == "add 'services' to informers of Reads: it asks for them"


@pytest.mark.parametrize(
    ("informers", "why"),
    [
        (CLAIMS, 'is no tuple: informers = ("services",)'),
        (("PVC",), "'PVC' names no resource: write the plural"),
        ((7,), "7 names no resource"),
        *(
            ((f"{selector}",), f"{selector!r} names no resource")
            for selector in ("pods?", "pods?status.phase", "?a=b", "pods?a=b?c=d", "pods?a=b&c")
        ),
    ],
)
def test_what_names_no_resource_is_refused_with_the_plugin(informers: Any, why: str) -> None:
    wrong = type("Wrong", (Reads,), {"name": "Wrong", "informers": informers})
    with pytest.raises((ConfigError, KubextendError)) as caught:
        made(wrong)
    assert 'informers of plugin "Wrong"' in str(caught.value)
    assert why in str(caught.value)


def test_a_logger_names_the_plugin_and_the_profile(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        made().handle.logger.info("quota of %s", "ml", extra={"pod": "a"})
    (record,) = [each for each in caplog.records if "quota" in each.getMessage()]
    assert (record.name, record.getMessage()) == ("kubextend.plugin.Reads", "quota of ml")
    fields = vars(record)
    assert (fields["plugin"], fields["pod"]) == ("Reads", "a")
    assert fields["profile"] == "default-scheduler"


def test_events_are_about_pods_nodes_and_objects() -> None:
    cluster = testing.Cluster(Reads)
    events = cluster.plugins[0].handle.events
    pod, node = make_pod("p", uid="u"), make_node("n")
    metadata = {"name": "c", "namespace": "ml", "uid": "x"}
    claim = KubeObject({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
    events.normal(pod, "Reason", "Scheduling", "a")
    events.warning(node, "Reason", "Scheduling", "b")
    events.warning(claim, "Reason", "Scheduling", "c")
    about = [event.regarding for event in cluster.events]
    assert [(each.kind, each.namespace, each.name, each.uid) for each in about] == [
        ("Pod", pod.namespace, "p", "u"),
        ("Node", "", "n", node.uid),
        ("PersistentVolumeClaim", "ml", "c", "x"),
    ]
    assert [event.type for event in cluster.events] == ["Normal", "Warning", "Warning"]


@pytest.mark.parametrize(
    ("about", "reason", "error"),
    [
        ("a pod", "Reason", TypeError),
        ({"kind": "Pod"}, "Reason", TypeError),
        ({"metadata": 1}, "Reason", TypeError),
        (None, "no word", ValueError),
        (None, "", ValueError),
    ],
)
def test_an_event_that_the_api_refuses_raises(about: Any, reason: str, error: Any) -> None:
    pod = make_pod("p")
    with pytest.raises(error):
        made().handle.events.normal(about or pod, reason, "Scheduling", "note")


def test_metrics_of_plugins_have_the_names_of_plugin_and_profile() -> None:
    class Counts:
        name = "Quota"

        def __init__(self, handle: Handle) -> None:
            self.pods = Counter("quota_pods", "Pods.", ["team"], registry=handle.metrics)

        def filter(self, _state: Any, pod: Any, _node: Any) -> None:
            self.pods.labels(pod.labels["team"].replace("odd", "\ud800\u00e9")).inc()

    server = Wire(profiles={"ml": [Counts], "web": [Counts]}, nodes=["n"])
    # What json.loads makes of an annotation may have a lone surrogate, which no page may hold.
    for profile, team in (("ml", "a"), ("web", "b"), ("web", "b"), ("ml", "odd")):
        pod = testing.pod_manifest(f"p-{profile}", scheduler_name=profile, labels={"team": team})
        assert server.filter(pod).kept == ["n"]
    text = page_of_metrics(server)
    assert 'quota_pods_total{plugin="Quota",profile="ml",team="a"} 1.0\n' in text
    assert 'quota_pods_total{plugin="Quota",profile="web",team="b"} 2.0\n' in text
    assert 'quota_pods_total{plugin="Quota",profile="ml",team="\\\\ud800\u00e9"} 1.0\n' in text
    assert text.count("# HELP quota_pods_total Pods.") == 1


def registers(name: str, make: Any) -> Any:
    """Return a plugin class that registers a metric when it is made."""

    def init(self: Any, handle: Handle) -> None:
        self.metric = make(handle.metrics)

    return type(name, (Plugin,), {"name": name, "__init__": init, "filter": lambda *_: None})


class Collects:
    """A collector of metrics with a function of a test."""

    def __init__(self, collect: Any) -> None:
        self.collect = collect


def test_metrics_that_fail_or_clash_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    many: Any = "many"
    fails = Collects(raises(RuntimeError("boom")))
    no_number = Collects(lambda: [GaugeMetricFamily("beds", "Beds.", value=many)])
    server = Wire(
        registers("First", lambda registry: Counter("pods", "Pods.", registry=registry)),
        registers("Second", lambda registry: Gauge("pods", "Pods.", registry=registry)),
        registers("Third", lambda registry: registry.register(fails)),
        registers("Fourth", lambda registry: Gauge("rooms", "Rooms.", registry=registry).set(3)),
        registers("Fifth", lambda registry: registry.register(no_number)),
    )
    for _ in range(2):
        text = page_of_metrics(server)
    assert 'rooms{plugin="Fourth",profile="default-scheduler"} 3.0' in text
    assert 'pods_total{plugin="First",profile="default-scheduler"}' in text
    assert 'plugin="Second",profile' not in text
    assert "beds" not in text
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert said.count("plugin Fifth cannot be collected: ValueError") == 1
    assert said.count("the metric pods of plugin Second clashes") == 1
    assert said.count("plugin Third cannot be collected: RuntimeError('boom')") == 1


def test_a_plugins_metrics_cannot_pass_for_kubextends() -> None:
    bad = registers("Bad", lambda registry: Counter("kubextend_requests", "No.", registry=registry))
    with pytest.raises(KubextendError, match="names that begin with"):
        testing.Cluster(bad)


def test_a_binding_has_the_annotations_of_its_own_attempt_with_the_last_values() -> None:
    def reserve(state: CycleState, pod: Any, _node: str) -> None:
        for key, value in (("example.com/slot", "1"), ("example.com/slot", pod.name), ("zone", "")):
            state.annotate(pod, key, value)

    cluster = testing.Cluster(Plugin(reserve=reserve, unreserve=lambda *_: None))
    for name in "pq":
        cluster.schedule(make_pod(name, uid=name))
    assert cluster.bindings.annotations == {
        name: {"example.com/slot": name, "zone": ""} for name in "pq"
    }


@pytest.mark.parametrize("key", ["", "a/b/c", "-a", "a b", "A.com/x", "x" * 64, "/x", "x/"])
def test_a_key_that_the_api_would_refuse_raises(key: str) -> None:
    with pytest.raises(ValueError, match="is no key of an annotation"):
        CycleState().annotate(make_pod("p"), key, "v")


def test_values_are_texts_of_a_size_that_the_api_takes() -> None:
    state, pod = CycleState(), make_pod("p", uid="u")
    with pytest.raises(TypeError, match="a str as value of the annotation 'k', not the int 1"):
        state.annotate(pod, "k", 1)  # type: ignore[arg-type]
    state.annotate(pod, "k", "x" * ((256 << 10) - 1))
    with pytest.raises(ValueError, match="have at most 262144 bytes"):
        state.annotate(pod, "k2", "")
