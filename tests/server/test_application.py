"""The application as a whole: its start and end, an API that is down, plugins of two profiles."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Counter
from tests.doors.extender import (
    NOBODY,
    PATIENT_S,
    Extender,
    in_memory,
    names_of,
    profile,
    request,
    skip,
    until,
)

from kubextend.framework import Handle

WIRE = Path(__file__).parents[1] / "data" / "wire"
LABEL = "node.kubernetes.io/rdma-enabled"


def recorded(mode: str, verb: str) -> bytes:
    """Return the body of a request of a real kube-scheduler."""
    return (WIRE / mode / f"{verb}.json").read_bytes()


@pytest.fixture
def down(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The section ``cluster`` of a configuration whose Kubernetes API is down."""
    with socket.socket() as taken:
        # It is bound and does not listen: a connection is refused, and nobody else gets the port.
        taken.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        entries = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(entries))
        yield {"kubeconfig": str(file)}


def test_the_embedded_default_answers_real_full_mode_requests() -> None:
    full = recorded("full", "filter")
    labelled = [
        item["metadata"]["name"]
        for item in json.loads(full)["Nodes"]["items"]
        if item["metadata"]["labels"].get(LABEL) == "true"
    ]
    answer = Extender(default=True).ask("/filter", full)
    assert (names_of(answer), answer.error) == (labelled, "")


@in_memory
async def test_with_the_api_down_an_extender_is_alive_and_decides_nothing_by_name(
    down: dict[str, Any],
) -> None:
    filtering = profile(filter=["NeedsRdma"], score=["NeedsRdma"])
    extender = Extender(cluster=down, profiles=[filtering], guard={"resources": True})
    before = set(threading.enumerate())
    async with extender.running():
        assert (await extender.begin("/livez").answer()).status == 200
        ready = await extender.begin("/readyz").answer()
        assert ready.status == 503
        assert "[-]node-sync failed: the nodes are not listed yet" in ready.text
        assert "[-]pod-sync failed: the pods are not listed yet" in ready.text
        names = await extender.begin("/filter", recorded("names", "filter")).answer()
        assert "are not listed yet" in names.error
        scored = await extender.begin("/prioritize", recorded("names", "prioritize")).answer()
        assert scored.body == b"[]"
        for mode in ("names", "full"):
            answer = await extender.begin("/preempt", recorded(mode, "preempt")).answer()
            assert answer.body == NOBODY
        text = (await extender.begin("/metrics").answer()).text
        assert 'kubextend_node_store_nodes{store="watched"} 0.0' in text
        assert 'kubextend_reflector_synced{resource="nodes"} 0.0' in text
        # An age of 0 would say that what never was there is fresh.
        assert 'kubextend_reflector_age_seconds{resource="nodes"}' not in text
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith(("kubextend-nodes", "kubextend-pods", "kubextend-events")):
            thread.join(PATIENT_S)
            assert not thread.is_alive()


# Plugins that start and stop.


class Counts:
    """A plugin that uses its Handle, and starts and stops on the server's event loop."""

    name = "Counts"
    informers = ("services",)

    def __init__(self, handle: Handle) -> None:
        self.steps: list[str] = []
        self._asked = Counter("counts_asked", "Calls.", registry=handle.metrics)
        handle.informer("services").on_change(lambda _before, _now: None)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._asked.inc()

    async def stop(self) -> None:
        assert self.loop is asyncio.get_running_loop()
        self.steps.append("stopped")

    def filter(self, *_: Any) -> None:
        raise NotImplementedError


class FailsToStop:
    name = "FailsToStop"

    def __init__(self, *_: Any) -> None:
        pass

    async def stop(self) -> None:
        message = "stop fails"
        raise RuntimeError(message)

    def filter(self, *_: Any) -> None: ...


def of_two_profiles(*names: str) -> Extender:
    profiles = [profile(name=scheduler, filter=names) for scheduler in ("ml", "web")]
    return Extender(Counts, FailsToStop, profiles=profiles)


@in_memory
async def test_two_profiles_run_one_plugin_with_metrics_of_one_name() -> None:
    extender = of_two_profiles("Counts")
    async with extender.running():
        text = (await extender.begin("/metrics").answer()).text
        for name in ("ml", "web"):
            assert f'counts_asked_total{{plugin="Counts",profile="{name}"}} 1.0' in text
        assert [plugin.steps for plugin in extender.plugins("Counts")] == [[], []]
    assert [plugin.steps for plugin in extender.plugins("Counts")] == [["stopped"]] * 2


@in_memory
async def test_a_stop_that_fails_keeps_no_other_plugin_from_stopping(
    caplog: pytest.LogCaptureFixture,
) -> None:
    extender = of_two_profiles("FailsToStop", "Counts")
    async with extender.running():
        await extender.begin("/livez").answer()
    assert [plugin.steps for plugin in extender.plugins("Counts")] == [["stopped"]] * 2
    assert 'running "FailsToStop" Stop plugin: RuntimeError: stop fails' in caplog.text
    failures = {"extension_point": "Stop", "plugin": "FailsToStop"}
    assert extender.counted("kubextend_plugin_failures_total", **failures) == 2


def test_without_an_api_the_verbs_and_the_probe_say_what_is_missing() -> None:
    extender = of_two_profiles("Counts")
    why = "plugins read services, which kubextend cannot watch: configure `cluster`"
    answer = extender.ask("/readyz")
    assert (answer.status, f"[-]informer-sync failed: {why}" in answer.text) == (503, True)
    asked = {"metadata": {"name": "p", "uid": "u"}, "spec": {"schedulerName": "ml"}}
    assert extender.ask("/filter", request("filter", asked)).error == (
        f"kubextend is not ready: {why}"
    )


@in_memory
async def test_bindings_that_nobody_waits_for_any_more_do_not_begin() -> None:
    """All threads wait for an API that does not answer, while pods are bound and given up."""
    api = StuckApi()
    extender = Extender(binder=api, profiles=[profile(filter=["NeedsRdma"])])
    await extender.begin("/filter", request("filter")).answer()

    def bind(number: int) -> Any:
        named = {"PodName": f"p-{number}", "PodNamespace": "ml", "PodUID": f"u-{number}"}
        return extender.begin("/bind", json.dumps({**named, "Node": "good"}).encode())

    *begun, last = [bind(number) for number in range(MANY)]
    await until(lambda: len(api.asked) > 1)
    # Verbs and probes do not wait for them.
    for _ in range(20):
        assert (await extender.begin("/filter", request("filter")).answer()).status == 200
    last.leave()
    with pytest.raises(EOFError):
        await last.answer()
    api.answers.set()
    for call in begun:
        assert (await call.answer()).body == b'{"Error":""}'
    assert sorted(api.asked) == sorted(f"p-{number}" for number in range(MANY - 1))


@in_memory
async def test_a_binding_that_is_on_its_way_counts_though_its_client_leaves() -> None:
    api = StuckApi()
    reserving = profile(filter=["NeedsRdma"], reserve=["Quota"])
    extender = Extender(binder=api, profiles=[reserving])
    await extender.begin("/filter", request("filter")).answer()
    call = extender.begin("/bind", request("bind"))
    await until(lambda: api.asked)
    for _ in range(3):
        call.leave()
        await skip()
    assert not call.is_over
    api.answers.set()
    await until(lambda: call.is_over)
    assert extender.plugin("Quota").steps == ["reserve"]


MANY = 200


class StuckApi:
    """A binder whose API answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def bind(self, _namespace: str, name: str, *_: str, **__: object) -> None:
        self.asked.append(name)
        assert self.answers.wait(PATIENT_S)
