"""What a plugin gets by its Handle: informers it declares, Events, metrics, a logger."""

import logging
from typing import Any

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily

from kubextend.errors import KubextendError
from kubextend.framework import CycleState, Handle, KubeObject, PluginEvents
from kubextend.framework.handle import ClusterPorts
from kubextend.framework.informer import Owner
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import WaitingPods
from kubextend.testing import make_node, make_pod
from kubextend.testing.stand_ins import ListedObjects, RecordedEvents

CLAIMS = "persistentvolumeclaims"


class Reads:
    name = "Reads"
    informers = (CLAIMS,)

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def filter(self, *_: Any) -> None: ...


def made(plugin: type[Any] = Reads, **options: Any) -> Any:
    handle = Handle(WaitingPods(), ClusterPorts(informers=ListedObjects([CLAIMS])), **options)
    return RegisteredPlugin(plugin.name, plugin).make(None, handle.in_profile("ml"))


def test_a_plugin_gets_the_informers_that_its_class_declares() -> None:
    assert made().handle.informer(CLAIMS).list() == []


def test_an_informer_that_the_class_does_not_declare_says_what_to_declare() -> None:
    with pytest.raises(KubextendError) as caught:
        made().handle.informer("services")
    assert str(caught.value) == "add 'services' to informers of Reads: it asks for them"


@pytest.mark.parametrize(
    ("informers", "why"),
    [
        (CLAIMS, 'is no tuple: informers = ("services",)'),
        (("PVC",), "'PVC' names no resource: write the plural"),
        ((7,), "7 names no resource"),
    ],
)
def test_what_names_no_resource_is_refused_with_the_plugin(informers: Any, why: str) -> None:
    wrong = type("Wrong", (Reads,), {"name": "Wrong", "informers": informers})
    with pytest.raises(KubextendError) as caught:
        made(wrong)
    assert 'informers of plugin "Wrong"' in str(caught.value)
    assert why in str(caught.value)


def test_a_logger_names_the_plugin_and_the_profile(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        made().handle.logger.info("quota of %s", "ml", extra={"pod": "a"})
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("kubextend.plugin.Reads", "quota of ml")
    fields = vars(record)
    assert (fields["plugin"], fields["profile"], fields["pod"]) == ("Reads", "ml", "a")


def test_events_are_about_pods_nodes_and_objects() -> None:
    sink = RecordedEvents()
    events = PluginEvents(Owner("Reads", "ml"), sink)
    pod, node = make_pod("p", uid="u"), make_node("n")
    metadata = {"name": "c", "namespace": "ml", "uid": "x"}
    claim = KubeObject({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
    events.normal(pod, "Reason", "Scheduling", "a")
    events.warning(node, "Reason", "Scheduling", "b")
    events.warning(claim, "Reason", "Scheduling", "c")
    about = [event.regarding for event in sink.written]
    assert [(each.kind, each.namespace, each.name) for each in about] == [
        ("Pod", pod.namespace, "p"),
        ("Node", "", "n"),
        ("PersistentVolumeClaim", "ml", "c"),
    ]
    assert (about[0].uid, about[1].uid, about[2].uid) == ("u", node.uid, "x")
    assert [event.type for event in sink.written] == ["Normal", "Warning", "Warning"]


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
def test_an_event_that_the_api_would_refuse_raises(
    about: Any, reason: str, error: type[Exception]
) -> None:
    pod = make_pod("p")
    with pytest.raises(error):
        PluginEvents(Owner("Reads")).normal(about or pod, reason, "Scheduling", "note")


def test_an_event_without_an_api_goes_nowhere() -> None:
    made().handle.events.normal(make_pod("p"), "Reason", "Scheduling", "note")


def test_two_profiles_have_metrics_of_one_name() -> None:
    metrics = Metrics()
    for profile, amount in (("ml", 1), ("web", 2)):
        registry = metrics.plugin_registry("Quota", profile)
        Counter("quota_pods", "Pods.", ["namespace"], registry=registry).labels("a").inc(amount)
    text = metrics.render()[0].decode()
    for profile, amount in (("ml", 1.0), ("web", 2.0)):
        labels = f'namespace="a",plugin="Quota",profile="{profile}"'
        assert f"quota_pods_total{{{labels}}} {amount}\n" in text
    assert text.count("# HELP quota_pods_total Pods.") == 1


def test_a_label_that_no_page_may_hold_is_escaped() -> None:
    # What json.loads makes of an annotation may have a lone surrogate.
    metrics = Metrics()
    registry = metrics.plugin_registry("Quota", "ml")
    Counter("quota_pods", "Pods.", ["team"], registry=registry).labels("\ud800\u00e9").inc()
    text = metrics.render()[0].decode()
    assert 'quota_pods_total{plugin="Quota",profile="ml",team="\\\\ud800\u00e9"} 1.0\n' in text


def test_a_plugins_metrics_cannot_pass_for_kubextends() -> None:
    registry = Metrics().plugin_registry("Quota", "ml")
    with pytest.raises(ValueError, match="names that begin with"):
        Counter("kubextend_requests", "No.", registry=registry)


def test_metrics_that_fail_or_clash_are_left_out_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    Counter("pods", "Pods.", registry=metrics.plugin_registry("First", "ml"))
    Gauge("pods", "Pods.", registry=metrics.plugin_registry("Second", "ml"))

    class Fails:
        def collect(self) -> Any:
            message = "boom"
            raise RuntimeError(message)

    class NoNumber:
        def collect(self) -> Any:
            yield GaugeMetricFamily("beds", "Beds.", value="many")  # type: ignore[arg-type]

    metrics.plugin_registry("Third", "ml").register(Fails())  # type: ignore[arg-type]
    metrics.plugin_registry("Fifth", "ml").register(NoNumber())  # type: ignore[arg-type]
    Gauge("rooms", "Rooms.", registry=metrics.plugin_registry("Fourth", "ml")).set(3)
    for _ in range(2):
        text = metrics.render()[0].decode()
    assert 'rooms{plugin="Fourth",profile="ml"} 3.0' in text
    assert 'pods_total{plugin="First",profile="ml"}' in text
    assert "Second" not in text
    said = [record.getMessage() for record in caplog.records]
    assert "beds" not in text
    assert len(said) == 3
    assert any("plugin Fifth cannot be collected: ValueError" in each for each in said)
    assert any("the metric pods of plugin Second clashes" in each for each in said)
    assert any("plugin Third cannot be collected: RuntimeError('boom')" in each for each in said)


def test_annotations_are_of_one_pod_and_the_last_value_counts() -> None:
    state, pod, other = CycleState(), make_pod("p", uid="u"), make_pod("q", uid="v")
    assert state.annotations_of("u") == {}
    state.annotate(pod, "example.com/slot", "1")
    state.annotate(pod, "example.com/slot", "2")
    state.annotate(pod, "zone", "")
    state.annotate(other, "zone", "b")
    assert state.annotations_of("u") == {"example.com/slot": "2", "zone": ""}
    assert state.annotations_of("v") == {"zone": "b"}


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
    assert list(state.annotations_of("u")) == ["k"]
