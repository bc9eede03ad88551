"""What a failing plugin leaves behind: a count, a line in the log, a sentence that goes out."""

import logging

from kubextend.errors import PluginError
from kubextend.metrics import Metrics
from kubextend.profile.run import UncalledError

__all__ = ["Failures", "sentence"]

_LOGGER = logging.getLogger(__name__)


class Failures:
    """Takes note of every plugin that failed, once for each failure.

    Args:
        metrics: what is counted.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def note(self, error: PluginError, consequence: str) -> None:
        """The failure is counted and logged, together with what the verb made of it."""
        if isinstance(error, UncalledError):
            # That the breaker opened, and why, is in the log already.
            self._metrics.plugin_calls_refused(error.plugin).inc()
            _LOGGER.debug("%s: %s", consequence, error)
            return
        self._metrics.plugin_failures(error.plugin, error.extension_point).inc()
        _LOGGER.error("%s: %s", consequence, error, exc_info=error, extra=error.facts)


def sentence(error: PluginError) -> str:
    """What kube-scheduler is told: only the name, as a text that varies makes it ask for ever."""
    return f'{error.extension_point} plugin "{error.plugin}" failed'
