"""The door of the Kubernetes API: a scripted API on loopback, and kubextend at work on it.

What the API server sees is in ``ScriptedApi``: requests, their times, Bindings, Events, patches.
The time is that of ``clocks``: inside of ``skipping``, waits of minutes pass at once, with the
longest jitter. This module alone knows which of kubextend's classes does what.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from tests.doors.clocks import (
    AT_MOST_S,
    SkippingLoop,
    SkippingTime,
    now,
    run,
    skip,
    skipping,
    until,
)
from tests.doors.scripted_api import ScriptedApi
from tests.doors.scripted_requests import (
    Request,
    gone_event,
    lost_answer,
    lost_request,
    refusing,
    status_of,
)

from kubextend import app, config
from kubextend.cluster import connect
from kubextend.discovery import known_plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "AT_MOST_S",
    "Held",
    "Request",
    "Running",
    "ScriptedApi",
    "SkippingLoop",
    "SkippingTime",
    "configuration",
    "connect",
    "eventually",
    "gone_event",
    "lost_answer",
    "lost_request",
    "now",
    "refusing",
    "run",
    "running",
    "scripted",
    "skip",
    "skipping",
    "status_of",
    "until",
    "write_kubeconfig",
]


@contextmanager
def scripted() -> Iterator[ScriptedApi]:
    """Serve a Kubernetes API on loopback until the block ends."""
    api = ScriptedApi()
    api.up()
    try:
        yield api
    finally:
        api.down()


def write_kubeconfig(file: Path, server: str, token: str) -> None:
    """Write a kubeconfig whose only user has this token at this URL of an API."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "there",
        "contexts": [{"name": "there", "context": {"cluster": "there", "user": "me"}}],
        "clusters": [{"name": "there", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    file.write_text(yaml.safe_dump(document))


def eventually(holds: Callable[[], object]) -> None:
    """Wait until threads have made this true, in real time; for tests without ``skipping``."""
    deadline = time.monotonic() + AT_MOST_S
    while not holds():
        assert time.monotonic() < deadline, "did not come to hold in time"
        time.sleep(0.005)


class Held:
    """A fault of ``ScriptedApi``: requests get no answer before the test sets ``go_on``."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, request: Request) -> bool:
        del request
        self.go_on.wait()
        return False


def configuration(kubeconfig: Path, *profiles: Any, **sections: Any) -> dict[str, Any]:
    """Return the tree of an ExtenderConfiguration for the cluster of a kubeconfig."""
    return {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "profiles": [*profiles],
        **sections,
    }


class Running:
    """A kubextend on a Kubernetes API, without its HTTP server."""

    def __init__(self, tree: Mapping[str, Any], plugins: Mapping[str, type] | None = None) -> None:
        self.app = app.build(config.parse(dict(tree), known=known_plugins(plugins or {})))

    def start(self) -> None:
        self.app.follow()
        asyncio.run(self.app.start())

    def stop(self) -> None:
        self.app.health.shut_down()
        self.app.stop()

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the present value of a metric on ``/metrics``; None: there is none."""
        self.app.metrics.render()
        return self.app.metrics.registry.get_sample_value(f"kubextend_{name}", labels)

    def metrics(self) -> str:
        return self.app.metrics.render()[0].decode()

    def ready(self) -> tuple[int, str]:
        """Return the status and the text of ``/readyz?verbose``."""
        return self.app.health.readyz(verbose=True)


@contextmanager
def running(
    tree: Mapping[str, Any], plugins: Mapping[str, type] | None = None
) -> Iterator[Running]:
    """Run a kubextend on a Kubernetes API until the block ends."""
    made = Running(tree, plugins)
    made.start()
    try:
        yield made
    finally:
        made.stop()
