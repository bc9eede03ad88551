"""Records what plugins raise, because the answers of verbs only name the plugin."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kubextend.errors import PluginError

__all__ = ["recorded_in"]


class _Recorder(logging.Handler):
    def __init__(self, failures: list[PluginError]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PluginError):
            self._failures.append(error)


@contextmanager
def recorded_in(failures: list[PluginError]) -> Iterator[None]:
    """Return a context in which each failure of a plugin that kubextend logs joins a list."""
    logger = logging.getLogger("kubextend")
    recorder = _Recorder(failures)
    logger.addHandler(recorder)
    try:
        yield
    finally:
        logger.removeHandler(recorder)
