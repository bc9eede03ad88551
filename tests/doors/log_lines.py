"""Log lines as ``kubextend serve`` writes them with --log-level and --log-format."""

import logging
from collections.abc import Callable
from typing import Any

from kubextend import logs

FORMATS = logs.FORMATS


def configure(level: Any, fmt: Any) -> None:
    """Write the lines of this level and above to stderr from now on."""
    logs.configure(level, fmt)


def at_most(lines_a_second: int, clock: Callable[[], float]) -> logging.Filter:
    """Return the bound on a flood of lines."""
    return logs.AtMost(lines_a_second, clock=clock)
