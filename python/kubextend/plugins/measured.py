"""What the plugins that score by measurements of Prometheus have in common."""

from typing import Any

__all__ = ["Measured"]


class Measured:
    """A plugin with ``_metric``, numbers of nodes that Prometheus is asked for in the background.

    ``_metric`` is a NodeMetric or a NodeLoad.
    """

    _metric: Any

    def start(self) -> None:
        """Begin to query Prometheus in the background."""
        self._metric.start()

    def stop(self) -> None:
        """Stop the queries to Prometheus."""
        self._metric.stop()
