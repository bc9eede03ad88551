"""A plugin that writes each of its calls for a pod to a file, one JSON object a line."""

import json
import threading
from pathlib import Path

from pydantic import BaseModel

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState


class Recorder:
    name = "Recorder"
    needs_pods = True

    class Args(BaseModel, extra="forbid"):
        file: str

    def __init__(self, args: Args) -> None:
        self._file = Path(args.file)
        self._lock = threading.Lock()

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        taken_by = [other.name for other in node.pods]
        self._write(pod, node.name, "filter", taken_by=taken_by)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._write(pod, node_name, "reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._write(pod, node_name, "unreserve")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._write(pod, node_name, "postBind")

    def _write(self, pod: Pod, node_name: str, point: str, **more: object) -> None:
        line = json.dumps({"point": point, "pod": pod.name, "node": node_name, **more})
        with self._lock, self._file.open("a") as file:
            file.write(line + "\n")
