"""The application as a whole: its start and end, an API that is down, plugins of two profiles."""

import asyncio
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Counter
from tests.doors.answering import closed_port, kubeconfig_for
from tests.doors.extender import (
    NOBODY,
    PATIENT_S,
    Extender,
    in_memory,
    profile,
    request,
    skip,
    until,
)
from tests.doors.wire import Activator, Binder, bind_request, names_request, node, pod
from tests.doors.wire_parts import Nodes

from kubextend import core
from kubextend.framework import Handle, Status

WIRE = Path(__file__).parents[1] / "data" / "wire"


def recorded(mode: str, verb: str) -> bytes:
    """Return the body of a request of a real kube-scheduler."""
    return (WIRE / mode / f"{verb}.json").read_bytes()


@in_memory
async def test_with_the_api_down_an_extender_is_alive_and_decides_nothing_by_name(
    tmp_path: Path,
) -> None:
    before = set(threading.enumerate())
    with closed_port() as closed:
        cluster = {"kubeconfig": str(kubeconfig_for(f"http://{closed}", tmp_path))}
        extender = Extender(cluster=cluster, guard={"resources": True})
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
        if thread.name.startswith(("kubextend-nodes", "kubextend-pods", "kubextend-outbox")):
            thread.join(PATIENT_S)
            assert not thread.is_alive()


SCHEDULERS = ("ml", "web")


class Counts:
    """A plugin that uses its Handle, and starts and stops on the server's event loop."""

    name = "Counts"
    informers = ("services",)

    def __init__(self, handle: Handle) -> None:
        self.steps: list[str] = []
        self.started = False
        self._asked = Counter("counts_asked", "Calls.", registry=handle.metrics)
        handle.informer("services").on_change(lambda _before, _now: None)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._asked.inc()
        self.started = True

    async def stop(self) -> None:
        assert self.loop is asyncio.get_running_loop()
        self.steps.append("stopped")
        message = "stop fails"
        raise RuntimeError(message)

    def filter(self, *_: Any) -> None:
        raise NotImplementedError


def of_two_profiles() -> Extender:
    return Extender(Counts, profiles=[profile(name=name, filter=["Counts"]) for name in SCHEDULERS])


@in_memory
async def test_one_plugin_of_two_profiles_counts_by_profile_and_stops_twice_though_stop_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    extender = of_two_profiles()
    async with extender.running():
        # The server answers before its plugins are started.
        await until(lambda: all(plugin.started for plugin in extender.plugins("Counts")))
        text = (await extender.begin("/metrics").answer()).text
        for name in SCHEDULERS:
            assert f'counts_asked_total{{plugin="Counts",profile="{name}"}} 1.0' in text
        assert [plugin.steps for plugin in extender.plugins("Counts")] == [[], []]
    assert [plugin.steps for plugin in extender.plugins("Counts")] == [["stopped"]] * 2
    assert 'running "Counts" Stop plugin: RuntimeError: stop fails' in caplog.text
    failures = {"extension_point": "Stop", "plugin": "Counts"}
    assert extender.counted("kubextend_plugin_failures_total", **failures) == 2


class Door:
    """Lets pods onto nodes while it is open, and reserves nothing."""

    name = "Door"

    def __init__(self, *_: object) -> None:
        self.is_open = True

    def filter(self, *_: object) -> Status | None:
        return None if self.is_open else Status.unschedulable("closed")

    def reserve(self, *_: object) -> Status:
        return Status.unschedulable("nobody may")

    def unreserve(self, *_: object) -> None:
        pass


class DownAtFirst(Activator):
    """An API that fails at the first pod that is to be tried again."""

    asked = 0

    def activate(self, pods: Iterable[core.Pod]) -> None:
        self.asked += 1
        if self.asked == 1:
            message = "no API"
            raise RuntimeError(message)
        super().activate(pods)


@in_memory
async def test_pods_are_woken_each_second_though_that_failed_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    activator, nodes = DownAtFirst(), Nodes(core.NodeStore())
    nodes.show(node("n"))
    extender = Extender(
        Door,
        binder=Binder(),
        ports={"nodes": nodes, "activator": activator},
        profiles=[profile(filter=["Door"], reserve=["Door"])],
    )
    door = extender.plugin("Door")

    async def kept(name: str) -> list[str]:
        answer = await extender.begin("/filter", names_request(pod(name), ["n"])).answer()
        return answer.kept

    async with extender.running():
        for asked, name in enumerate(("first", "second"), 1):
            assert await kept("other") == ["n"]
            door.is_open = False
            assert await kept(name) == []
            door.is_open = True
            # A bind that fails may have made room for pods that were rejected.
            answer = await extender.begin("/bind", bind_request(pod("other"), "n")).answer()
            assert answer.error == "nobody may"
            await skip(1)
            await until(lambda asked=asked: activator.asked == asked)
            await until(lambda: "waking pods failed" in caplog.text)
    assert activator.woken == ["second"]


def test_without_an_api_the_verbs_and_the_probe_say_what_is_missing() -> None:
    extender = of_two_profiles()
    why = "plugins read services, which kubextend cannot watch: configure `cluster`"
    answer = extender.ask("/readyz")
    assert (answer.status, f"[-]informer-sync failed: {why}" in answer.text) == (503, True)
    asked = {"metadata": {"name": "p", "uid": "u"}, "spec": {"schedulerName": "ml"}}
    assert extender.ask("/filter", request("filter", asked)).error == (
        f"kubextend is not ready: {why}"
    )


MANY = 200


def stuck() -> Binder:
    """Return a binder whose API answers when the test says so."""
    binder = Binder()
    binder.gate.clear()
    return binder


@in_memory
async def test_bindings_that_nobody_waits_for_any_more_do_not_begin() -> None:
    """All threads wait for an API that does not answer, while pods are bound and given up."""
    binder = stuck()
    extender = Extender(binder=binder, profiles=[profile(filter=["NeedsRdma"])])
    await extender.begin("/filter", request("filter")).answer()

    def bind(number: int) -> Any:
        named = {"PodName": f"p-{number}", "PodNamespace": "ml", "PodUID": f"u-{number}"}
        return extender.begin("/bind", json.dumps({**named, "Node": "good"}).encode())

    *begun, last = [bind(number) for number in range(MANY)]
    await until(lambda: binder.began > 1)
    # Verbs and probes do not wait for them.
    for _ in range(20):
        assert (await extender.begin("/filter", request("filter")).answer()).status == 200
    last.leave()
    with pytest.raises(EOFError):
        await last.answer()
    binder.gate.set()
    for call in begun:
        assert (await call.answer()).body == b'{"Error":""}'
    assert (set(binder.bound), binder.began) == ({f"u-{n}" for n in range(MANY - 1)}, MANY - 1)


@in_memory
async def test_a_binding_that_is_on_its_way_counts_though_its_client_leaves() -> None:
    binder = stuck()
    reserving = profile(filter=["NeedsRdma"], reserve=["Quota"])
    extender = Extender(binder=binder, profiles=[reserving])
    await extender.begin("/filter", request("filter")).answer()
    call = extender.begin("/bind", request("bind"))
    await until(lambda: binder.began)
    for _ in range(3):
        call.leave()
        await skip()
    assert not call.is_over
    binder.gate.set()
    await until(lambda: call.is_over)
    assert extender.plugin("Quota").steps == ["reserve"]
