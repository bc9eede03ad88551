"""Changes the configuration file 100 times while clients call filter and prioritize over HTTP.

The file lies in a folder that is mounted as the kubelet mounts a ConfigMap: a link to ``..data``,
which is a link that is replaced. Of five changes, three are whole configurations (one of them
written in two halves), one names a plugin that nobody knows, and one stays half written.

Policy N is two plugins. Each of them rejects nodes of its own for the reason ``policy N``, and
gives 100 points to the nodes with the digits of N. An answer that two policies made is therefore
no answer of any policy.
"""

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, say, until
from tests.hostile.memory import Served

from .clients import Client, percentile, tell

_CLIENTS: Final = 4
_PAUSE_S: Final = 0.004
# Less than the time between two looks of kubextend at the file.
_HALF_WRITTEN_S: Final = 0.6
_KINDS: Final = ("swapped", "unknown plugin", "in two halves", "half", "swapped")
_PLUGINS: Final = ("LabelMatch", "Digits")
_TAKEN: Final = frozenset({"swapped", "in two halves"})
_PLUGIN: Final = '''
from pydantic import BaseModel

from kubextend.framework import Status


class Digits:
    """Does for the nodes with the label ``Digits`` what LabelMatch does for its own."""

    name = "Digits"

    class Args(BaseModel):
        policy: int

    def __init__(self, args: Args) -> None:
        self._policy = args.policy

    def filter(self, state, pod, node):
        if node.labels.get("Digits") == ("even", "odd")[self._policy % 2]:
            return Status.unschedulable(f"policy {self._policy}")

    def score(self, state, pod, node):
        tens, ones = divmod(self._policy, 10)
        return 100 if node.labels.get("Digits") in (f"tens-{tens}", f"ones-{ones}") else 0
'''
_DIGITS: Final = [f"{place}-{number}" for place in ("tens", "ones") for number in range(11)]
NODES: Final = [
    {"metadata": {"name": f"{plugin}-{value}".lower(), "labels": {plugin: value}}}
    for plugin in _PLUGINS
    for value in ("even", "odd", *_DIGITS)
]
_NAMES: Final = [node["metadata"]["name"] for node in NODES]


def profile(policy: int) -> dict[str, Any]:
    """Return the profile of a policy: an even one rejects the even nodes, an odd one the odd."""
    tens, ones = divmod(policy, 10)
    parity = ("even", "odd")[policy % 2]
    matching = {
        "filters": [{"nodeSelector": f"LabelMatch!={parity}", "reason": f"policy {policy}"}],
        "scores": [{"nodeSelector": f"LabelMatch in (tens-{tens},ones-{ones})", "score": 100}],
    }
    enabled = {"enabled": [{"name": name} for name in _PLUGINS]}
    return {
        "plugins": {"filter": enabled, "score": enabled},
        "pluginConfig": [
            {"name": "LabelMatch", "args": matching},
            {"name": "Digits", "args": {"policy": policy}},
        ],
    }


def filtered(policy: int) -> tuple[list[str], dict[str, str]]:
    """Return the nodes that filter keeps by a policy, and the reasons for the others."""
    parity = ("even", "odd")[policy % 2]
    rejected = {f"{plugin}-{parity}".lower(): f"policy {policy}" for plugin in _PLUGINS}
    return [name for name in _NAMES if name not in rejected], rejected


def scored(policy: int) -> dict[str, int]:
    """Return the scores of prioritize by a policy: no node gets points from both plugins."""
    tens, ones = divmod(policy, 10)
    digits = (f"tens-{tens}", f"ones-{ones}")
    best = {f"{plugin}-{digit}".lower() for plugin in _PLUGINS for digit in digits}
    return {name: 10 if name in best else 0 for name in _NAMES}


class Mounted:
    """The configuration file in a folder as the kubelet mounts a ConfigMap.

    Args:
        file: a whole configuration, which becomes a link into the folder.
    """

    def __init__(self, file: Path) -> None:
        self._name = file.name
        self._whole = json.loads(file.read_text())
        self._folder = file.parent / "mounted"
        self._folder.mkdir()
        self._versions = 0
        self.swap(file.read_text())
        (self._folder / self._name).symlink_to(Path("..data") / self._name)
        link = file.with_suffix(".link")
        link.symlink_to(self._folder / self._name)
        link.replace(file)

    def text(self, policy: int) -> str:
        """Return the configuration with the profile of a policy."""
        return json.dumps(self._whole | {"profiles": [profile(policy)]})

    def swap(self, text: str) -> None:
        """Write the file into a new folder, and let ``..data`` be this folder from now on."""
        # Source: kubernetes v1.36 pkg/volume/util/atomic_writer.go, Write
        self._versions += 1
        data = self._folder / f"..version-{self._versions}"
        data.mkdir()
        (data / self._name).write_text(text)
        link = self._folder / "..data_tmp"
        link.symlink_to(data.name)
        link.replace(self._folder / "..data")

    def write(self, *parts: str) -> None:
        """Write the file in its place, part by part, with a pause between two parts."""
        with (self._folder / self._name).open("w") as file:
            for number, part in enumerate(parts):
                if number:
                    time.sleep(_HALF_WRITTEN_S)
                file.write(part)
                file.flush()


@dataclass(frozen=True)
class Change:
    """A change of the file: its kind, and the policy that it has."""

    kind: str
    policy: int

    def make(self, mounted: Mounted) -> None:
        text = mounted.text(self.policy)
        half = len(text) // 2
        if self.kind == "swapped":
            mounted.swap(text)
        elif self.kind == "unknown plugin":
            mounted.swap(text.replace('"LabelMatch"', '"LabelMach"'))
        elif self.kind == "in two halves":
            mounted.write(text[:half], text[half:])
        else:
            mounted.write(text[:half])


class Asking:
    """Calls filter and prioritize until told to end, and judges each answer.

    Args:
        port: the port of the verbs.
        policies: the policies that an answer may come from.
    """

    def __init__(self, port: int, policies: list[int]) -> None:
        self._port = port
        self._filtered = {str(policy): filtered(policy) for policy in policies}
        self._scored = {str(sorted(scored(each).items())): each for each in policies}
        self._lock = threading.Lock()
        self.ended = threading.Event()
        self.newest = 0
        self.requests = self.failed = self.mixed = self.older = 0

    def ask(self, thread: int) -> None:
        """Call the verbs about one pod after the other."""
        client, number = Client(self._port), 0
        while not self.ended.is_set():
            number += 1
            uid = f"{thread}-{number}"
            pod = {"metadata": {"name": f"p-{uid}", "namespace": "ml", "uid": uid}}
            body = json.dumps({"Pod": pod, "Nodes": {"items": NODES}}).encode()
            for verb, policy_of in (("filter", self._by_filter), ("prioritize", self._by_score)):
                newest = self.newest
                try:
                    status, answer = client.post(f"/{verb}", body)
                    told = json.loads(answer) if status == http.client.OK else None
                except (OSError, http.client.HTTPException, ValueError) as error:
                    say(f"{verb}: {error!r}")
                    told = None
                self._judge(verb, told, policy_of, newest)
            time.sleep(_PAUSE_S)
        client.close()

    def _judge(self, verb: str, told: Any, policy_of: Any, newest: int) -> None:
        is_failed = told is None or (isinstance(told, dict) and bool(told["Error"]))
        policy = None if is_failed else policy_of(told)
        with self._lock:
            self.requests += 1
            self.failed += is_failed
            if is_failed or policy is None:
                self.mixed += not is_failed
                say(f"{verb}: {json.dumps(told)[:2000]}")
                return
            # An answer before this request was by a newer policy.
            self.older += policy < newest
            self.newest = max(self.newest, policy)

    def _by_filter(self, told: Any) -> int | None:
        """Return the policy that made an answer of filter; None: no policy makes this answer."""
        rejected = told["FailedNodes"] | told["FailedAndUnresolvableNodes"]
        policy = next(iter(rejected.values()), "").removeprefix("policy ")
        kept = [node["metadata"]["name"] for node in told["Nodes"]["items"]]
        return int(policy) if self._filtered.get(policy) == (kept, rejected) else None

    def _by_score(self, told: Any) -> int | None:
        """Return the policy that made an answer of prioritize; None: no policy makes this one."""
        scores = {each["Host"]: each["Score"] for each in told}
        return self._scored.get(str(sorted(scores.items())))


def changes(count: int) -> Iterator[Change]:
    """Yield so many changes of all kinds, each with a policy of its own, from 1 on."""
    for policy in range(1, count + 1):
        yield Change(_KINDS[policy % len(_KINDS)], policy)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000)
    options = parser.parse_args()
    planned = list(changes(options.changes))
    valid = [0, *(change.policy for change in planned if change.kind in _TAKEN)]
    config = {
        "server": {},
        "outOfTree": ["digits:Digits"],
        "extender": {"nodeCacheCapable": False, "httpTimeout": "30s"},
        "profiles": [profile(0)],
    }
    took_s = []
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        (bench.folder / "digits.py").write_text(_PLUGIN)
        server = Served(bench, config)

        def counted(result: str) -> float:
            return server.count("kubextend_configuration_reloads_total", result=result)

        mounted = Mounted(server.config_file)
        asking = Asking(server.port, valid)
        with ThreadPoolExecutor(_CLIENTS) as clients:
            asked = [clients.submit(asking.ask, thread) for thread in range(_CLIENTS)]
            try:
                for change in planned:
                    result = "taken" if change.kind in _TAKEN else "refused"
                    before, start = counted(result), time.monotonic()
                    change.make(mounted)
                    until(lambda: counted(result) > before, f"{change} is {result}")  # noqa: B023
                    if change.kind == "swapped":
                        took_s.append(time.monotonic() - start)
                    if result == "taken":
                        until(lambda: asking.newest == change.policy, f"{change} answers")  # noqa: B023
                until(lambda: asking.requests >= options.requests, "all requests are sent")
            finally:
                asking.ended.set()
            for each in asked:
                each.result()
        tell(
            {
                "changes": len(planned),
                "taken": counted("taken"),
                "refused": counted("refused"),
                "requests": asking.requests,
                "failed": asking.failed,
                "mixed": asking.mixed,
                "older": asking.older,
                "in_use_p50_s": percentile(took_s, 50),
                "in_use_worst_s": max(took_s),
            }
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
