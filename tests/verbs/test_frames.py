"""How deep kubextend calls a plugin: a traceback of an author shows few frames of others."""

import traceback
from pathlib import Path

from tests.doors.wire import Plugin, Wire, pod

import kubextend

OURS = Path(kubextend.__file__).parent
# What carries a request to its verb: the server, and the pool of the verb's thread.
CARRY = (OURS / "server", OURS / "profile" / "threads.py")
P = pod("p")


def frames() -> list[str]:
    """Return the functions of kubextend between the endpoint and the plugin that calls this."""
    stack = [(Path(frame.filename), frame.name) for frame in traceback.extract_stack()]
    ours = [(path, name) for path, name in stack if path.is_relative_to(OURS)]
    return [name for path, name in ours if not any(map(path.is_relative_to, CARRY))]


def test_a_filter_and_permit_are_at_most_eight_frames_from_the_endpoint() -> None:
    seen: dict[str, list[str]] = {}

    async def permit(*_: object) -> None:
        seen["permit"] = frames()

    def look(point: str) -> None:
        seen[point] = frames()

    each = Plugin("Each", filter=lambda *_: look("filter"), permit=permit)
    whole = Plugin("Whole", filter_nodes=lambda *_: look("filter_nodes") or [])
    wire = Wire(each, whole, nodes=["n"], pods=[P])
    assert wire.filter(P).kept == ["n"]
    assert wire.bind(P, "n").error == ""
    assert {point: names for point, names in seen.items() if not 1 < len(names) <= 8} == {}
    assert seen.keys() == {"filter", "filter_nodes", "permit"}
