"""What the plugins of one scheduling attempt tell each other."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubextend import core

__all__ = ["CycleState"]

# Each call of frozenset makes one of 200 bytes.
_NONE: Final[frozenset[str]] = frozenset()


class CycleState:
    """A place for values by key, begun anew for each attempt.

    Attributes:
        skip_filter_plugins: names of plugins whose PreFilter answered Skip.
        skip_score_plugins: names of plugins whose PreScore answered Skip.
        asked_for_pods: whether a plugin asked for the pods of all nodes in this attempt.
        pods_seen: the pods that plugins see on nodes, where they are not those of now: in preempt
            those that stay when the victims are gone; with pods that are nominated to a node.
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
        """The value written under a key.

        Raises: KeyError: nothing was written under it.
        """
        return self._values[key]

    def write(self, key: str, value: object) -> None:
        """Keep a value for the plugins that come later in the attempt."""
        self._values[key] = value

    def delete(self, key: str) -> None:
        """Forget a value; a key that is not there is no error."""
        self._values.pop(key, None)
