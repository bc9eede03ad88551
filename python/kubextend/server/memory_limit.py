"""Reads the memory limit of the container, into which the limits on requests have to fit."""

from pathlib import Path
from typing import Final

__all__ = ["memory_limit_bytes"]

# cgroup v2 and v1; v1 says "no limit" by a number close to 2**63.
_FILES: Final = ("memory.max", "memory/memory.limit_in_bytes")
_NO_LIMIT_BYTES: Final = 1 << 60


def memory_limit_bytes(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the memory limit of this process's cgroup in bytes; None: no limit is visible."""
    for name in _FILES:
        try:
            text = (root / name).read_text().strip()
        except OSError:
            continue
        limit = int(text) if text.isdecimal() else _NO_LIMIT_BYTES
        return limit if limit < _NO_LIMIT_BYTES else None
    return None
