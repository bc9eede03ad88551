"""A plugin that refuses pods at random until a file exists, and records its calls in a file."""

import asyncio
import json
import os
import random
import time
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from kubextend.core import Nodes, Pod
from kubextend.framework import CycleState, Status

MOST_REFUSALS = 3
LONGEST_S = 0.3


class Chance:
    """Refuses pods at random in Reserve and PreBind, and writes each call to a file.

    The profile calls Chance before Coscheduling in Permit, and after Coscheduling in Reserve.
    """

    name = "Chance"

    class Args(BaseModel, extra="forbid"):
        file: str
        calm: str
        seed: int

    def __init__(self, args: Args) -> None:
        self._calm = Path(args.calm)
        self._seed = args.seed
        self._asked = Counter[str]()
        # One write is one line, also where the process is killed a moment later.
        self._file = os.open(args.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        self._write("try", pod)

    async def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self._write("reserve", pod)
        return await self._refusal("reserve", pod, 0.3)

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._write("unreserve", pod)

    async def permit(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._write("permit", pod)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return await self._refusal("preBind", pod, 0.1)

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._write("postBind", pod)

    async def _refusal(self, point: str, pod: Pod, chance: float) -> Status | None:
        if self._calm.exists():
            return None
        self._asked[f"{point} {pod.name}"] += 1
        asked = self._asked[f"{point} {pod.name}"]
        draw = random.Random(f"{self._seed} {point} {pod.name} {asked}")
        await asyncio.sleep(draw.uniform(0, LONGEST_S))
        if asked <= MOST_REFUSALS and draw.random() < chance:
            self._write("refuse", pod)
            return Status.unschedulable("chance refuses")
        return None

    def _write(self, point: str, pod: Pod) -> None:
        line = {"at_s": time.time(), "point": point, "pod": pod.name}
        os.write(self._file, json.dumps(line).encode() + b"\n")
