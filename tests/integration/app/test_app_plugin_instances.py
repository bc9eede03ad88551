"""One plugin in two profiles of an app: metrics, start and stop, informers without an API."""

import asyncio
import json
from typing import Any

import pytest
from prometheus_client import Counter

from kubextend import app, config, discovery
from kubextend.config import ExtenderConfiguration
from kubextend.framework import Handle


class Counts:
    """A plugin that uses all of its Handle, in an order that each test sees in ``steps``."""

    name = "Counts"
    informers = ("services",)
    steps: list[str]

    def __init__(self, handle: Handle) -> None:
        self._asked = Counter("counts_asked", "Calls.", registry=handle.metrics)
        self._services = handle.informer("services")
        self._services.add_index("all", lambda _: ["all"])
        self._services.on_change(lambda _before, _now: None)
        self._logger = handle.logger

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._logger.info("started")
        self._asked.inc()

    async def stop(self) -> None:
        assert self.loop is asyncio.get_running_loop()
        self.steps.append("stopped")

    def filter(self, *_: Any) -> None:
        raise NotImplementedError


class Fails(Counts):
    name = "Fails"
    informers = ()

    def __init__(self, handle: Handle) -> None:
        pass

    async def stop(self) -> None:
        self.steps.append("failed")
        message = "stop fails"
        raise RuntimeError(message)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(Counts, "steps", found, raising=False)
    return found


def of_two_profiles(*names: str) -> ExtenderConfiguration:
    enabled = [{"name": name} for name in names]
    profiles = [
        {"schedulerName": scheduler, "plugins": {"filter": {"enabled": enabled}}}
        for scheduler in ("ml", "web")
    ]
    whole = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "profiles": profiles,
    }
    return config.parse(whole, known=discovery.known_plugins({"Counts": Counts, "Fails": Fails}))


def test_two_profiles_run_one_plugin_with_metrics_of_one_name(steps: list[str]) -> None:
    built = app.build(of_two_profiles("Counts"))

    async def lives() -> str:
        await built.start()
        text = built.metrics.render()[0].decode()
        await built.stop_async_plugins()
        return text

    text = asyncio.run(lives())
    for profile in ("ml", "web"):
        assert f'counts_asked_total{{plugin="Counts",profile="{profile}"}} 1.0' in text
    assert steps == ["stopped", "stopped"]
    built.stop()
    assert steps == ["stopped", "stopped"]


def test_a_stop_that_fails_keeps_no_other_plugin_from_stopping(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Fails, "start", None)
    built = app.build(of_two_profiles("Fails", "Counts"))

    async def lives() -> None:
        await built.start()
        await built.stop_async_plugins()

    asyncio.run(lives())
    assert sorted(steps) == ["failed", "failed", "stopped", "stopped"]
    assert 'running "Fails" Stop plugin: RuntimeError: stop fails' in caplog.text
    assert b'failures_total{extension_point="Stop",plugin="Fails"} 2' in built.metrics.render()[0]


def test_without_an_api_the_verbs_and_the_probe_say_what_is_missing(steps: list[str]) -> None:
    configuration = of_two_profiles("Counts")
    app.check(configuration)
    built = app.build(configuration)
    asyncio.run(built.start())
    why = "plugins read services, which kubextend cannot watch: configure `cluster`"
    status, text = built.health.readyz(verbose=True)
    assert (status, f"[-]informer-sync failed: {why}" in text) == (503, True)
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": {"schedulerName": "ml"}}
    node = {"metadata": {"name": "n"}}
    body = json.dumps({"Pod": pod, "Nodes": {"items": [node]}, "NodeNames": None}).encode()
    answer = json.loads(bytes(built.verbs.filter(body)))
    assert answer["Error"] == f"kubextend is not ready: {why}"
    assert steps == []
