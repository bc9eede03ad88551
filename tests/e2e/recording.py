"""Reads the calls that the Recorder plugin has written to its file."""

import json
from collections import Counter
from pathlib import Path

from .kubeapi import Object
from .stack import Stack


class Recording:
    """Reads the file of one Recorder plugin, whose Args name the file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def args(self) -> Object:
        return {"file": str(self.file)}

    def count(self, point: str) -> Counter[str]:
        """Return how often an extension point was called for each pod, by the pod's name."""
        return Counter(line["pod"] for line in self._lines() if line["point"] == point)

    def taken_by(self, stack: Stack, node_names: list[str], scheduler_name: str) -> set[str]:
        """Return the names of the pods, bound or assumed, that filter sees on these nodes now."""
        probe = f"probe-{self.file.stat().st_size if self.file.exists() else 0}"
        metadata = {"name": probe, "namespace": "default", "uid": probe}
        pod = {"metadata": metadata, "spec": {"schedulerName": scheduler_name}}
        stack.post("filter", {"Pod": pod, "Nodes": None, "NodeNames": node_names})
        seen = [line for line in self._lines() if line["pod"] == probe]
        assert len(seen) == len(node_names), "the Recorder was asked about each node"
        return {name for line in seen for name in line["taken_by"]}

    def _lines(self) -> list[Object]:
        if not self.file.exists():
            return []
        return [json.loads(line) for line in self.file.read_text().splitlines()]
