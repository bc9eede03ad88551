"""Log lines as ``kubextend serve`` writes them with --log-level and --log-format."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kubextend import logs

FORMATS = logs.FORMATS


def configure(level: Any, fmt: Any) -> None:
    """Write the lines of this level and above to stderr from now on."""
    logs.configure(level, fmt)


def at_most(lines_a_second: int, clock: Callable[[], float]) -> logging.Filter:
    """Return the bound on a flood of lines."""
    return logs.AtMost(lines_a_second, clock=clock)


@contextmanager
def unbounded() -> Iterator[None]:
    """Let every line through: a bound on lines a second counts those of earlier tests too."""
    loggers = [
        each for each in logging.root.manager.loggerDict.values() if hasattr(each, "filters")
    ]
    bounds = [(each, on) for each in loggers for on in each.filters if isinstance(on, logs.AtMost)]
    for logger, bound in bounds:
        logger.removeFilter(bound)
    try:
        yield
    finally:
        for logger, bound in bounds:
            logger.addFilter(bound)
