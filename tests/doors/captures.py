"""What ``kubextend why --output json`` captures: kubextend's record, the pod, and its Events."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.doors.command_line import run, write

# kubextend has run for an hour when the pod is tried.
SERVER = {
    "queueGate": "",
    "profiles": {"trains": ["P"], "web": []},
    "notReady": {},
    "recordsSince": "2026-01-01T11:00:00.5Z",
}
TRIED = "2026-01-01T12:00:00Z"
Facts = dict[str, Any]


def call(verb: str = "filter", **fields: Any) -> dict[str, Any]:
    usual: Facts = {"verb": verb, "at": "2026-01-01T00:00:00Z", "tookSeconds": 0.001, "done": True}
    usual |= {"error": "", "note": "", "node": "", "leftOut": [], "plugins": []}
    usual |= dict.fromkeys(["failed", "nodes", "rejectedBy", "heldSeconds", "apiSeconds"])
    return {**usual, **fields}


def rejected(count: int, told: str = "no ssd") -> dict[str, Any]:
    group = {"plugin": "P", "reason": "no ssd", "detail": "", "nodes": count, "examples": []}
    said = [{"reason": told, "nodes": count}]
    return {"nodes": count, "passed": 0, "rejected": [group], "told": said, "best": []}


def facts(message: str = "", *calls: Mapping[str, Any], **fields: Any) -> Facts:
    """Return what is known of a pod: its message, the calls about it, and other facts."""
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    condition["lastTransitionTime"] = TRIED
    pod = {
        "metadata": {"uid": "u"},
        "spec": {"schedulerName": "trains", **fields.pop("spec", {})},
        "status": {"conditions": [condition] if message else []},
    }
    more = fields.pop("told", {})
    record = {"kubextend": SERVER, "attempts": [{"calls": [*calls]}] if calls else [], **more}
    return {"namespace": "ns", "name": "p", "pod": pod, "decisions": record, **fields}


def event(note: str, of: str = "trains", at: str = TRIED) -> dict[str, Any]:
    return {"reason": "FailedScheduling", "from": of, "at": at, "note": note}


def capture(folder: Path, known: Facts) -> Path:
    """Write what ``why --output json`` would write."""
    return write(folder / "capture.json", {"facts": known})


def why(folder: Path, known: Facts, *options: str) -> str:
    """Return what ``why`` says of a capture."""
    done = run("why", "--file", capture(folder, known), *options)
    assert done.exit_code == 0, done.output
    return done.output
