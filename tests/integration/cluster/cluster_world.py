"""What tests of the Kubernetes API's clients share: a kubeconfig, and patience."""

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
    """Seconds that pass when a test says so; knows how often it was read."""

    now_s: float = 1000.0
    read: int = 0

    def __call__(self) -> float:
        self.read += 1
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds

    def is_read_again(self) -> None:
        """Whoever waits for a moment of this clock finds that it has not come yet."""
        read = self.read
        # What one look reads, twice and one more: the second look began after this call did.
        eventually(lambda: self.read > read + 4)


class Held:
    """A fault: requests are not answered before the test lets them."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, request: Request) -> bool:
        del request
        assert self.go_on.wait(PATIENCE_S)
        return False


def unlabelled(name: str, namespace: str = "default") -> Pod:
    """A pod that the watch brought with more labels than are kept."""
    labels = {f"k{number}": "v" for number in range(1000)}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
    event = {"type": "ADDED", "object": {"metadata": metadata}}
    found = PodStore(max_pod_bytes=4096).apply(json.dumps(event).encode()).pod
    assert found is not None
    return found
