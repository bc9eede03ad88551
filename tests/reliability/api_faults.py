"""Takes the Kubernetes API away from kubextend: ``half-open`` or ``away``.

- ``half-open``: a proxy leaves the connection of the watch open and passes nothing on. The program
  tells after how many seconds kubextend has all changes of the nodes that were made meanwhile.
- ``away``: the API is gone for a minute. The program tells how much of a core kubextend takes
  meanwhile, and whether it serves on.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, say, until
from tests.hostile.memory import Served
from tests.integration.cluster.scripted_api import ScriptedApi

from .clients import tell
from .faulty_proxy import FaultyProxy

_NODES: Final = 200
_AWAY_S: Final = 60.0
_CONFIG: Final[dict[str, Any]] = {
    "server": {},
    "extender": {"nodeCacheCapable": True},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}


def half_open(api: ScriptedApi, proxy: FaultyProxy, server: Served) -> dict[str, float]:
    """Leave the watch half-open, and change half of the nodes meanwhile."""
    lists = api.counts["list"]
    proxy.go_silent()
    start = time.monotonic()
    for number in range(_NODES // 2):
        api.delete_node(f"node-{number}")
        api.put_node(f"new-{number}")
    until(lambda: not _missed(api, server), "all changes are there", every_s=0.2)
    return {
        "resumed_after_s": time.monotonic() - start,
        "missed": len(_missed(api, server)),
        "lists": api.counts["list"] - lists,
    }


def away(api: ScriptedApi, _: FaultyProxy, server: Served) -> dict[str, float]:
    """Take the API away for a minute, and bring it back with another node."""
    lists = api.counts["list"]
    api.down()
    spent_s, start = server.program.processor_s(), time.monotonic()
    wrong = 0
    while (away_s := time.monotonic() - start) < _AWAY_S:
        time.sleep(5.0)
        wrong += _known(server, ["node-0", "nobody"]) != {"node-0"}
    spent_s = server.program.processor_s() - spent_s
    api.put_node("another")
    api.up()
    start = time.monotonic()
    until(lambda: not _missed(api, server), "the new node is there", every_s=0.1)
    return {
        "away_s": away_s,
        "wrong_meanwhile": wrong,
        "percent_of_a_core": 100 * spent_s / away_s,
        "resumed_after_s": time.monotonic() - start,
        "lists": api.counts["list"] - lists,
    }


def _missed(api: ScriptedApi, server: Served) -> set[str]:
    """Return the nodes that kubextend does not know though they are there, or the reverse."""
    there = set(api.nodes)
    names = sorted(there | {f"node-{number}" for number in range(_NODES)})
    return _known(server, names) ^ there


def _known(server: Served, names: list[str]) -> set[str]:
    """Return which names of nodes kubextend knows: it lets a pod onto every node that it knows."""
    asked = {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "NodeNames": names}
    return set(server.filter(json.dumps(asked).encode()).json()["NodeNames"] or [])


_FAULTS: Final[dict[str, Callable[[ScriptedApi, FaultyProxy, Served], dict[str, float]]]] = {
    "half-open": half_open,
    "away": away,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fault", choices=_FAULTS)
    fault = _FAULTS[parser.parse_args().fault]
    api = ScriptedApi()
    for number in range(_NODES):
        api.put_node(f"node-{number}")
    api.up()
    with (
        tempfile.TemporaryDirectory() as folder,
        Workbench(Path(folder)) as bench,
        FaultyProxy(api.port, 0.0, 0) as proxy,
    ):
        server = Served(bench, _CONFIG, proxy)
        until(lambda: not _missed(api, server), "all nodes are known")
        until(lambda: api.counts["watch"], "the nodes are watched")
        say(f"ready, after {api.counts['list']} lists")
        tell(fault(api, proxy, server))
    api.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
