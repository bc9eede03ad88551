"""CycleState: what the plugins of one scheduling attempt tell each other."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubextend import core

__all__ = ["CycleState"]

# Each call of ``frozenset()`` would allocate 200 bytes.
_NONE: Final[frozenset[str]] = frozenset()


class CycleState:
    """Values by key for the plugins of one attempt; each attempt begins with an empty state.

    Attributes:
        skip_filter_plugins: names of plugins whose PreFilter answered Skip.
        skip_score_plugins: names of plugins whose PreScore answered Skip.
        asked_for_pods: whether a plugin asked for the pods of all nodes in this attempt.
        pods_seen: the pods that plugins see on nodes where these differ from the present ones: in
            preempt those that stay when the victims are gone; for nominated pods those and the
            present ones.

    Source: kubernetes v1.36 pkg/scheduler/framework/cycle_state.go
    """

    __slots__ = (
        "_values",
        "asked_for_pods",
        "pods_seen",
        "skip_filter_plugins",
        "skip_score_plugins",
    )

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self.skip_filter_plugins = _NONE
        self.skip_score_plugins = _NONE
        self.pods_seen: core.PodSnapshot | None = None
        self.asked_for_pods = False

    def read(self, key: str) -> object:
        """Return the value under a key.

        Raises: KeyError: no plugin wrote a value under the key.
        """
        return self._values[key]

    def write(self, key: str, value: object) -> None:
        """Keep a value for the plugins that come later in the attempt."""
        self._values[key] = value

    def delete(self, key: str) -> None:
        """Forget a value; an absent key is no error."""
        self._values.pop(key, None)
