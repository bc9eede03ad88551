"""Lets a plugin sleep, and then compute, for ten seconds, and times requests beside the plugin."""

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import mean
from typing import Any, Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import Served

from .clients import Client, percentile, tell, timed
from .slow_clients import nodes

_HANGS_S: Final = 10.0
_PLUGIN: Final = f'''
import time


class Sleeps:
    """Sleeps for ten seconds."""

    name = "Sleeps"

    def filter_nodes(self, state, pod, nodes):
        time.sleep({_HANGS_S})
        return []


class Computes:
    """Computes for ten seconds."""

    name = "Computes"

    def filter_nodes(self, state, pod, nodes):
        end = time.monotonic() + {_HANGS_S}
        while time.monotonic() < end:
            pass
        return []
'''


def _profile(scheduler: str, plugin: str) -> dict[str, Any]:
    return {
        "schedulerName": scheduler,
        "plugins": {"filter": {"enabled": [{"name": plugin}]}},
    }


_CONFIG: Final[dict[str, Any]] = {
    "server": {},
    "extender": {"httpTimeout": "5s"},
    "outOfTree": ["hangs:Sleeps", "hangs:Computes"],
    "profiles": [
        _profile("good", "HighCommPodFilter"),
        _profile("sleeps", "Sleeps"),
        _profile("computes", "Computes"),
    ],
}


def _body(scheduler: str) -> bytes:
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": {"schedulerName": scheduler}}
    return json.dumps({"Pod": pod, "Nodes": {"items": nodes()}}).encode()


class Hang:
    """A request that a plugin makes hang.

    Attributes:
        answered_after_s: the seconds until the request was answered.
        error: the Error of the answer.
    """

    def __init__(self, port: int, scheduler: str) -> None:
        self.answered_after_s = 0.0
        self.error = ""
        self._thread = threading.Thread(target=self._ask, args=(port, scheduler))
        self._thread.start()

    def _ask(self, port: int, scheduler: str) -> None:
        start = time.monotonic()
        _, answer = Client(port).post("/filter", _body(scheduler))
        self.answered_after_s = time.monotonic() - start
        self.error = json.loads(answer)["Error"]

    def join(self) -> None:
        """Wait for the answer."""
        self._thread.join()


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        (bench.folder / "hangs.py").write_text(_PLUGIN)
        server = Served(bench, _CONFIG)
        good, body = Client(server.port), _body("good")
        timed(good, "/filter", body, 3.0)
        p99s_ms, failed, hangs = {}, 0, {}
        for phase in ("before", "sleeps", "between", "computes"):
            if phase in {"sleeps", "computes"}:
                hangs[phase] = Hang(server.port, phase)
            took, wrong = timed(good, "/filter", body, _HANGS_S)
            p99s_ms[phase] = percentile(took, 99) * 1e3
            failed += wrong
        for hang in hangs.values():
            hang.join()
        say(f"p99 {p99s_ms}; {[hang.error for hang in hangs.values()]}")
    tell(
        {
            "failed": failed,
            "without_error": sum(not hang.error for hang in hangs.values()),
            "answered_after_s": max(hang.answered_after_s for hang in hangs.values()),
            "p99_ratio_beside_sleep": p99s_ms["sleeps"]
            / mean([p99s_ms["before"], p99s_ms["between"]]),
            "p99_ms_beside_busy_loop": p99s_ms["computes"],
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
