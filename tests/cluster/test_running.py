"""A whole kubextend on an API: metrics, held pods, marks for autoscalers, new credentials."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from tests.doors.kube_api import (
    Running,
    ScriptedApi,
    SkippingTime,
    configuration,
    running,
    write_kubeconfig,
)
from tests.doors.scripted_requests import refusing

from kubextend import core
from kubextend.cli import main
from kubextend.errors import ConfigError
from kubextend.framework import Handle, Status

RESOURCES = ("nodes", "pods", "pods?status.phase=Succeeded")
GANG = {"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}
HOLDS = {"plugins": {point: {"enabled": [{"name": "Holds"}]} for point in ("filter", "permit")}}


class Holds:
    """Rejects nodes without the label ``zone``, and holds every pod for ten minutes."""

    name = "Holds"
    needs_pods = True
    handles: ClassVar[list[Handle]] = []

    def __init__(self, handle: Handle) -> None:
        self.handles.append(handle)

    def filter(self, state: Any, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        del state, pod
        return None if "zone" in node.labels else Status.unschedulable("no zone")

    def permit(self, *_: Any) -> tuple[Status, float]:
        return Status.wait(), 600.0


Ready = Callable[..., AbstractContextManager[Running]]


@pytest.fixture
def ready(api: ScriptedApi, kubeconfig: Path, clock: SkippingTime) -> Ready:
    """Run a kubextend with the plugin ``Holds`` and a pod ``web``, and wait until it is ready."""

    @contextmanager
    def run(**sections: Any) -> Iterator[Running]:
        api.put_pod("web", "uid-web")
        with running(configuration(kubeconfig, HOLDS, **sections), {"Holds": Holds}) as replica:
            clock.until(lambda: replica.ready()[0] == 200)
            yield replica

    return run


def test_events_and_failures_of_all_watches_are_counted(
    api: ScriptedApi, kubeconfig: Path, clock: SkippingTime
) -> None:
    api.put_node("n1")
    api.put_pod("a", "uid-a")
    api.fail("list", refusing(500, "InternalError"))
    replica = Running(configuration(kubeconfig, GANG))

    def every(name: str) -> list[float]:
        found = [replica.metric(f"reflector_{name}", resource=each) for each in RESOURCES]
        return [each for each in found if each is not None]

    assert (every("synced"), every("age_seconds")) == ([0, 0, 0], [])
    replica.start()
    clock.pass_s(10)
    api.put_pod("b", "uid-b")
    api.put_pod("c", "uid-c")
    clock.settle()
    assert replica.metric("reflector_events_total", resource="pods") == 2
    # The list that failed was that of the first one to ask.
    assert sorted(every("failures_total")) == [0, 0, 1]
    assert every("synced") == [1, 1, 1]
    assert all(0 <= age_s < 60 for age_s in every("age_seconds"))
    replica.stop()


def test_without_an_api_there_is_nothing_to_tell_of_it() -> None:
    tree = configuration("", {"schedulerName": "default-scheduler"})  # type: ignore[arg-type]
    del tree["cluster"]
    text = Running(tree).metrics()
    assert "kubextend_waiting_pods 0.0" in text
    for name in ("kubextend_activations", "kubextend_held_pod_events", 'resource="'):
        assert name not in text


def test_a_pod_that_every_node_was_refused_to_is_woken_when_a_node_changes(
    api: ScriptedApi, ready: Ready, clock: SkippingTime
) -> None:
    api.put_node("n1")
    with ready() as replica:
        assert replica.filter(api.pods["web"], "n1")["FailedNodes"] == {"n1": "no zone"}
        clock.pass_s(1)
        api.put_node("n1", zone="a")
        clock.pass_s(1)
        assert api.paths("patch") == ["/api/v1/namespaces/default/pods/web/status"]
        assert replica.metric("activations_total", result="sent") == 1
        assert replica.metric("activations_total", result="failed") == 0


def test_a_held_pod_has_an_event_and_is_sent_back_when_it_is_deleted(
    api: ScriptedApi, ready: Ready, clock: SkippingTime
) -> None:
    api.put_node("n1", zone="a")
    with ready() as replica:
        errors = replica.bind_beside(api.pods["web"], "n1")
        clock.pass_s(2)
        assert replica.metric("waiting_pods") == 1
        assert [event["reason"] for event in api.events] == ["WaitingOnPermit"]
        assert replica.metric("held_pod_events_total", result="sent") == 1
        assert (errors, api.counts["bind"], api.counts["patch"]) == ([], 0, 0)
        # Deleted while no watch is open: only a list can tell.
        with api.changed:
            api.delete_pod("web")
            api.compact()
            api.end_watches()
        clock.pass_s(5)
        assert len(errors) == 1
        assert "the pod is deleted" in errors[0]
        assert replica.metric("waiting_pods") == 0


@pytest.mark.parametrize(
    ("autoscaler", "marked"),
    [
        ({"name": "Karpenter"}, True),
        ({"name": "Karpenter", "markHeldPods": False}, False),
        ({}, False),
    ],
)
def test_held_pods_are_marked_where_the_configuration_names_an_autoscaler(
    api: ScriptedApi, ready: Ready, clock: SkippingTime, autoscaler: Any, marked: bool
) -> None:
    api.put_node("n1", zone="a")
    with ready(autoscaler=autoscaler) as replica:
        replica.bind_beside(api.pods["web"], "n1")
        clock.pass_s(5)
        reasons = [body["status"]["conditions"][0]["reason"] for body in api.bodies("patch")]
        assert reasons == (["Unschedulable"] if marked else [])
        assert ("kubextend_held_pod_marks_total" in replica.metrics()) is marked


def test_an_autoscaler_that_is_unknown_is_an_error_and_one_without_held_pods_has_a_note(
    kubeconfig: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"autoscaler\.name"):
        Running(configuration(kubeconfig, GANG, autoscaler={"name": "karpenter"}))
    tree = configuration(kubeconfig, {"schedulerName": "a"}, autoscaler={"name": "Karpenter"})
    file = tmp_path / "kubextend.yaml"
    file.write_text(json.dumps(tree))
    done = CliRunner().invoke(main, ["check", str(file)])
    note = "autoscaler.markHeldPods: no profile has a Permit plugin, so no pod will ever be held"
    assert note in done.output


def test_a_plugin_that_asks_for_the_client_has_the_one_with_the_new_credentials(
    api: ScriptedApi, ready: Ready, kubeconfig: Path, clock: SkippingTime
) -> None:
    Holds.handles.clear()
    with ready():
        (handle,) = Holds.handles

        def token() -> str:
            return str(handle.kubernetes_client.configuration.api_key["BearerToken"])

        assert token() == "Bearer a-token"
        api.token = "the-next-token"
        write_kubeconfig(kubeconfig, api.url, "the-next-token")
        api.end_watches()
        clock.pass_s(10)
        assert token() == "Bearer the-next-token"
