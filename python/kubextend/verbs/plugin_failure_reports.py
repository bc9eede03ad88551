"""Reports a failing plugin: in a metric, in the log, and in a sentence for kube-scheduler."""

import logging
from typing import Final

from kubextend.errors import PluginError
from kubextend.logs import AtMost
from kubextend.metrics import Family, Metrics
from kubextend.profile.run_in_progress import UncalledError

__all__ = ["FAILURES", "Failures", "sentence"]

FAILURES: Final = Family(
    "kubextend_plugin_failures",
    "Calls of a plugin that raised or answered what it may not.",
    ("plugin", "extension_point"),
)
_CALLS_REFUSED: Final = Family(
    "kubextend_plugin_calls_refused",
    "Calls of a plugin that were not made, because its breaker was open.",
    ("plugin",),
)

_LOGGER = logging.getLogger(__name__)
_OF_OBJECTS = logging.getLogger(f"{__name__}.objects")
_OF_OBJECTS.addFilter(AtMost(10))


class Failures:
    """Counts and logs each failure of a plugin once.

    Args:
        metrics: where failures are counted.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def note(self, error: PluginError, consequence: str) -> None:
        """Count and log a plugin's failure, with the failure's consequence for the request.

        A call that the plugin's open circuit breaker refused has a metric of its own, and is logged
        at level DEBUG.
        """
        if isinstance(error, UncalledError):
            # The breaker has already logged that it opened, and why.
            self._metrics.counter(_CALLS_REFUSED, error.plugin).inc()
            _LOGGER.debug("%s: %s", consequence, error)
            return
        self._metrics.counter(FAILURES, error.plugin, error.extension_point).inc()
        _LOGGER.error("%s: %s", consequence, error, exc_info=error, extra=error.facts)

    def object_passed_over(self, error: PluginError) -> None:
        """Count a failure about a watched object, and log ten a second at most.

        Users choose how many objects they make, and how often they change them.
        """
        self._metrics.counter(FAILURES, error.plugin, error.extension_point).inc()
        text = "a watched object is passed over: %s"
        _OF_OBJECTS.error(text, error, exc_info=error, extra=error.facts)

    def left_out(self, error: PluginError) -> None:
        """Count and log the failure of a plugin without which a request is still answered."""
        self.note(error, "left out")


def sentence(error: PluginError) -> str:
    """Return an error text that names the failed plugin, and no details that vary.

    A text that varies would change the pod's condition, and make kube-scheduler retry the pod.
    """
    return f'{error.extension_point} plugin "{error.plugin}" failed'
