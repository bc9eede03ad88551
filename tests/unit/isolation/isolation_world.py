"""Plugins for the tests of isolated plugins, and the pods and nodes of their requests."""

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import PreFilterResult, Rejection
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.framework.status import Status
from kubextend.profile import Profile
from kubextend.profile.isolation import IsolatedPlugin

POINTS: Final = ("preFilter", "filter", "postFilter", "preScore", "score")
LONG_S: Final = 60
# The seconds to wait for what has to happen soon, on a busy machine.
SOON_S: Final = 60.0


def until(fulfilled: Callable[[], bool]) -> None:
    """Wait until ``fulfilled`` returns true; fail after 60 s."""
    by_s = time.monotonic() + SOON_S
    while not fulfilled():
        assert time.monotonic() < by_s
        time.sleep(0.01)


class ZonesArgs(BaseModel, extra="forbid"):
    zone: str = "a"


class Zones:
    """Filters and scores nodes by zone, with one call for all nodes."""

    name = "Zones"
    Args = ZonesArgs

    def __init__(self, args: ZonesArgs) -> None:
        self._zone = args.zone

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        fits = nodes.matches(f"zone={self._zone}")
        return [
            Rejection(nodes.unschedulable, Status.unresolvable("cordoned", detail=pod.name)),
            Rejection(~fits, Status.unschedulable("wrong zone", detail="\udce4")),
            Rejection(~nodes.tolerated_by(pod), Status.pending("tainted")),
        ]

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Sequence[int]:
        return [len(label or "") * 7 for label in nodes.labels("zone")]

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Any) -> Any:
        return core.normalize(scores)


class OneByOne:
    """Filters and scores nodes with one call for each node."""

    name = "OneByOne"

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        if not node.known:
            return Status.unresolvable("who?")
        if node.allocatable("cpu") < pod.request("cpu"):
            return Status.unschedulable("too small", detail=str(node.allocatable("cpu")))
        if node.labels.get("zone") in pod.annotations.get("not", "").split():
            return Status.unresolvable(f"not in {node.label('zone')}")
        return None

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        return min(node.allocatable("memory") >> 30, 90) + len(node.taints)


class Remembers:
    """Reads, at each extension point, what earlier extension points wrote to the CycleState."""

    name = "Remembers"

    def pre_filter(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> PreFilterResult | tuple[PreFilterResult, Status] | Status | None:
        state.write("asked", [pod.name])
        match pod.annotations.get("preFilter"):
            case "even":
                return PreFilterResult(frozenset(nodes.names[::2]))
            case "nothing":
                return PreFilterResult(frozenset()), Status.success()
            case "skip":
                return Status.skip()
            case "never":
                return Status.unresolvable("never")
        return None

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        asked: Any = state.read("asked")
        asked.append(len(nodes))
        text = " ".join(map(str, asked))
        return [Rejection(nodes.matches("zone=b"), Status.unschedulable(text))]

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        said = [f"{each.nodes.indices()}: {each.status.reason}" for each in rejections]
        return Status.unschedulable(f"{state.read('asked')} {said}")

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        state.write("base", len(nodes))
        return Status.skip() if pod.annotations.get("preScore") == "skip" else None

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        base: Any = state.read("base")
        asked: Any = state.read("asked")
        return int(base) + len(asked)


class NeverEndsError(BaseException):
    """A BaseException that is no Exception."""


ODD: Final[Mapping[str, Callable[[core.Nodes], Any]]] = {
    "nothing": lambda _nodes: None,
    "a number": lambda _nodes: 17,
    "a text": lambda _nodes: "good",
    "an Error": lambda _nodes: Status.error("no"),
    "Wait": lambda _nodes: Status.wait(),
    "numbers": lambda nodes: list(range(len(nodes))),
    "too many": lambda nodes: [1] * (len(nodes) + 1),
    "too few": lambda nodes: [1] * (len(nodes) - 1),
    "above 100": lambda nodes: [101] * len(nodes),
    "below 0": lambda nodes: [-1] * len(nodes),
    "huge": lambda nodes: [10**30] * len(nodes),
    "fractions": lambda nodes: [0.5] * len(nodes),
    "NaN": lambda nodes: [float("nan")] * len(nodes),
    "truths": lambda nodes: [True] * len(nodes),
    "nones": lambda nodes: [None] * len(nodes),
    "rejections": lambda nodes: [Rejection(nodes.everything(), Status.unschedulable("no"))],
    "the same twice": lambda nodes: [
        Rejection(nodes.everything(), Status.unschedulable("no")),
        Rejection(nodes.everything(), Status.unresolvable("never")),
    ],
    "rejections of others": lambda _nodes: [
        Rejection(core.Mask([True]), Status.unschedulable("no"))
    ],
    "rejections by name": lambda nodes: [Rejection(nodes.names, Status.unschedulable("no"))],  # type: ignore[arg-type]
    "a rejection with success": lambda nodes: [Rejection(nodes.everything(), Status.success())],
    "a rejection with an Error": lambda nodes: [Rejection(nodes.everything(), Status.error("e"))],
    "a rejection without status": lambda nodes: [Rejection(nodes.everything(), None)],  # type: ignore[arg-type]
    "a reason of bytes": lambda nodes: [
        Rejection(nodes.everything(), Status.unschedulable(b"no"))  # type: ignore[arg-type]
    ],
    "a reason that cannot be written": lambda nodes: [
        Rejection(nodes.everything(), Status.unschedulable("\udce4"))
    ],
    "a status that cannot be written": lambda _nodes: Status.unschedulable("\udce4"),
    "names": lambda _nodes: PreFilterResult(["x"]),  # type: ignore[arg-type]
    "names of no text": lambda _nodes: PreFilterResult(frozenset({1, "\udce4"})),  # type: ignore[arg-type]
}
RAISED: Final[Mapping[str, Callable[[], BaseException]]] = {
    "Exception": lambda: ValueError("0x7f3a"),
    "BaseException": NeverEndsError,
    "SystemExit": lambda: SystemExit(3),
    "MemoryError": MemoryError,
    "unreadable": lambda: ValueError("\udce4"),
}


def _said(pod: core.Pod, nodes: core.Nodes) -> Any:
    if raised := RAISED.get(pod.annotations["say"]):
        raise raised()
    return ODD[pod.annotations["say"]](nodes)


class _Says:
    """Returns or raises what the pod's annotation ``say`` names, in PreFilter and PostFilter."""

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Any:
        state.write("nodes", nodes)
        return _said(pod, nodes)

    def post_filter(self, state: CycleState, pod: core.Pod, rejections: object) -> Any:
        nodes: Any = state.read("nodes")
        return _said(pod, nodes)


class Odd(_Says):
    """Returns or raises what the annotation ``say`` names, with one call for all nodes."""

    name = "Odd"

    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Any:
        return _said(pod, nodes)

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Any:
        return _said(pod, nodes)

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Any:
        return _said(pod, nodes)


class OddEach(_Says):
    """Returns or raises what the annotation ``say`` names, with one call for each node."""

    name = "OddEach"

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Any:
        nodes: Any = state.read("nodes")
        return _said(pod, nodes)

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Any:
        return self.score(state, pod, node)


class OddAfterwards:
    """Scores nodes well, and returns or raises in NormalizeScore what ``say`` names."""

    name = "OddAfterwards"

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        state.write("nodes", nodes)
        return [1000] * len(nodes)

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Any) -> Any:
        nodes: Any = state.read("nodes")
        return _said(pod, nodes)


class Dies:
    """Ends its process or hangs in filter, in the way that the pod's annotation ``then`` names."""

    name = "Dies"

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        match pod.annotations.get("then"):
            case "exit":
                os._exit(7)
            case "segfault":
                ctypes.string_at(0)
            case "abort":
                os.abort()
            case "close":
                os.closerange(3, 64)
            case "gil":
                ctypes.PyDLL(None).sleep(LONG_S)
            case "sleep":
                time.sleep(LONG_S)
            case "spin":
                while True:
                    pass
        return [Rejection(nodes.matches("zone=b"), Status.unschedulable("b"))]

    score_nodes = Zones.score_nodes
    normalize_score = Zones.normalize_score


class DiaryArgs(BaseModel):
    file: Path


class Diary:
    """Writes to a file when it is made, started, called and stopped, and in which process."""

    name = "Diary"
    Args = DiaryArgs

    def __init__(self, args: DiaryArgs, handle: Any) -> None:
        self._file = args.file
        self._handle = handle
        self._note("made")

    def _note(self, what: str) -> None:
        with self._file.open("a") as opened:
            opened.write(f"{os.getpid()} {what}\n")

    def start(self) -> None:
        self._note("started")
        # A thread that a plugin leaves running does not keep its process alive.
        threading.Thread(target=time.sleep, args=(LONG_S,)).start()

    def stop(self) -> None:
        self._note("stopped")

    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        if pod.annotations.get("then") == "exit":
            os._exit(7)
        handle = self._handle
        handle.activate([pod])
        seen = (handle.kubernetes_client, handle.nodes(), [*handle.waiting_pods])
        self._note(f"{seen} {handle.configuration and handle.configuration.score_scale}")
        return []


class NeverStarts(Dies):
    """Filters nodes, but raises in ``start``."""

    name = "NeverStarts"

    def start(self) -> None:
        message = "no route"
        raise RuntimeError(message)


class StartsForEver(Dies):
    """Hangs in ``start``."""

    name = "StartsForEver"

    def start(self) -> None:
        ctypes.PyDLL(None).sleep(LONG_S)


class Unmade:
    """Raises when it is constructed."""

    name = "Unmade"

    def __init__(self) -> None:
        message = "no licence"
        raise RuntimeError(message)

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> None:
        return None


class UnmadeAndGone(Unmade):
    """Ends its process when it is constructed."""

    name = "UnmadeAndGone"

    def __init__(self) -> None:
        os._exit(9)


def profile_with(plugin: Any, plugin_class: type[Any]) -> Profile:
    """Return a profile with the plugin at every extension point that its class has."""
    points = RegisteredPlugin(plugin_class.name, plugin_class).extension_points

    def at(point: str) -> list[Any]:
        return [plugin] if point in points else []

    return Profile(
        "default-scheduler",
        pre_filter=at("preFilter"),
        filter=at("filter"),
        post_filter=at("postFilter"),
        pre_score=at("preScore"),
        score=[(each, 1) for each in at("score")],
    )


@contextmanager
def isolated(plugin_class: type[Any], args: BaseModel | None = None) -> Iterator[IsolatedPlugin]:
    """Run the plugin in a process of its own until the block ends; yield its IsolatedPlugin."""
    registered = RegisteredPlugin(plugin_class.name, plugin_class)
    plugin = IsolatedPlugin.of(registered, args, registered.extension_points)
    try:
        yield plugin
    finally:
        plugin.stop()


def pid_of(plugin: IsolatedPlugin) -> int:
    child = plugin._supervisor._child
    assert child is not None
    return child._process.pid


def node(name: str, zone: str = "a", **more: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": more.pop("cpu", "4"), "memory": more.pop("memory", "8Gi")}}
    return {"metadata": {"name": name, "labels": {"zone": zone}}, "spec": more, "status": status}


def pod(**annotations: str) -> dict[str, Any]:
    of = {"name": "p", "namespace": "ml", "uid": "u-p", "annotations": annotations}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    return {"metadata": of, "spec": {"containers": containers}}


def full(nodes: Sequence[object], of: object = None) -> bytes:
    return json.dumps({"Pod": of or pod(), "Nodes": {"items": list(nodes)}}).encode()


def named(names: Sequence[str], of: object = None) -> bytes:
    return json.dumps({"Pod": of or pod(), "NodeNames": list(names)}).encode()


def read(body: bytes, *stores: core.NodeStore) -> tuple[core.Pod, core.Nodes]:
    args = core.read_args(body, stores[0]) if stores else core.read_args(body)
    assert args.pod is not None
    assert args.nodes is not None
    return args.pod, args.nodes
