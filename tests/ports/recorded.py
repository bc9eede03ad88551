"""Reads and writes the decisions of the Go originals about the generated cases."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.ports.cases import questions

_FOLDER = Path(__file__).parent.parent / "data" / "ports"


def line(value: Any) -> bytes:
    """Return a value as one line of JSON, the same bytes every time."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def asked(plugin: str, every: Sequence[Any]) -> str:
    """Return a digest of all clusters and of the questions about them for a plugin."""
    digest = hashlib.sha256()
    for number, cluster in enumerate(every):
        digest.update(line(cluster))
        for args, pod in questions(plugin, number):
            digest.update(line([args, pod]))
    return digest.hexdigest()


def write(plugin: str, answers: bytes, digest: str) -> None:
    """Write a plugin's answers, one line each, behind a line with the digest of the questions."""
    _FOLDER.mkdir(exist_ok=True)
    # Without a time, equal answers are equal bytes.
    packed = gzip.compress(line({"asked": digest}) + answers, mtime=0)
    (_FOLDER / f"{plugin}.jsonl.gz").write_bytes(packed)


def read(plugin: str) -> tuple[str, list[Any]]:
    """Return the digest of the questions that were asked, and the answers in order."""
    first, *answers = gzip.decompress((_FOLDER / f"{plugin}.jsonl.gz").read_bytes()).splitlines()
    return json.loads(first)["asked"], [json.loads(answer) for answer in answers]
