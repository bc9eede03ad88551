"""How deep kubextend calls a plugin: a traceback of an author shows few frames of others."""

import asyncio
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from tests.doors.wire import Plugin, Wire, pod

import kubextend

OURS = Path(kubextend.__file__).parent
ENDPOINT = "verb_endpoint.py"
P = pod("p")


def awaited(work: Any) -> Iterator[CodeType]:
    """Yield the code of a coroutine, and of each coroutine that it awaits."""
    while (code := getattr(work, "cr_code", None)) is not None:
        yield code
        work = work.cr_await


def is_endpoint(code: CodeType) -> bool:
    return Path(code.co_filename).name == ENDPOINT


def frames(wire: Wire) -> list[str]:
    """Return the functions of kubextend from the endpoint to the plugin that calls this.

    Those of the endpoint's task come first if the plugin is called on a thread.
    """
    way = [frame.f_code for frame, _ in traceback.walk_stack(None)][::-1]
    if not any(map(is_endpoint, way)):
        chains = [[*awaited(task.get_coro())] for task in asyncio.all_tasks(wire.loop)]
        (chain,) = [each for each in chains if any(map(is_endpoint, each))]
        way = chain + way
    began = [*map(is_endpoint, way)].index(True)
    return [code.co_name for code in way[began:] if Path(code.co_filename).is_relative_to(OURS)]


def test_a_plugin_is_called_at_most_eight_frames_from_the_endpoint() -> None:
    seen: dict[str, list[str]] = {}

    def look(point: str) -> None:
        seen[point] = frames(wire)

    async def permit(*_: object) -> None:
        look("permit")

    each = Plugin("Each", filter=lambda *_: look("filter"), permit=permit)
    each.score = lambda *_: look("score") or 0  # type: ignore[attr-defined]
    whole = Plugin("Whole", filter_nodes=lambda *_: look("filter_nodes") or [])
    whole.permit = lambda *_: look("permit on a thread")  # type: ignore[attr-defined]
    wire = Wire(each, whole, nodes=["n"], pods=[P])
    assert wire.filter(P).kept == ["n"]
    wire.prioritize(P)
    assert wire.bind(P, "n").error == ""
    assert {point: names for point, names in seen.items() if not 1 < len(names) <= 8} == {}
    points = {"filter", "filter_nodes", "score", "permit", "permit on a thread"}
    assert seen.keys() == points
