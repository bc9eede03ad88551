"""Helpers of the tests of kubextend.cluster: a kubeconfig, waiting, a clock, a held request."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from kubextend.core import PodStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripted_api import Request

    from kubextend.core import Pod

PATIENCE_S = 60.0


def write_kubeconfig(file: Path, server: str, token: str) -> None:
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
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "did not come to hold in time"
        time.sleep(0.005)


@dataclass
class Clock:
    """A clock in seconds that a test moves by hand, and that counts how often it was read."""

    now_s: float = 1000.0
    read: int = 0

    def __call__(self) -> float:
        self.read += 1
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds

    def is_read_again(self) -> None:
        """Wait until the code under test has read the clock again and still waits for its time."""
        read = self.read
        # One look reads the clock twice: after five more reads, one look began after this call.
        eventually(lambda: self.read > read + 4)


class Held:
    """A fault of ``ScriptedApi``: requests get no answer before the test sets ``go_on``."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, request: Request) -> bool:
        del request
        assert self.go_on.wait(PATIENCE_S)
        return False


def unlabelled(name: str, namespace: str = "default") -> Pod:
    """Return a pod that the store keeps without its labels, because they are too many."""
    labels = {f"k{number}": "v" for number in range(1000)}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
    event = {"type": "ADDED", "object": {"metadata": metadata}}
    found = PodStore(max_pod_bytes=4096).apply(json.dumps(event).encode()).pod
    assert found is not None
    return found
