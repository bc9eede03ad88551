"""CycleState: the values that plugins share during one attempt to schedule a pod."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubextend import core

__all__ = ["CycleState"]

# Each call of ``frozenset()`` would allocate 200 bytes.
_NONE: Final[frozenset[str]] = frozenset()


class CycleState:
    """The values that plugins share, by key, during one attempt to schedule a pod.

    kubextend makes a new, empty CycleState for each attempt.

    Attributes:
        skip_filter_plugins: names of plugins whose PreFilter returned Skip; their Filter is not
            run.
        skip_score_plugins: names of plugins whose PreScore returned Skip; their Score is not run.
        asked_for_pods: whether a plugin read the pods on nodes in this attempt.
        pods_seen: a snapshot of the pods on nodes that replaces the watched pods for plugins:
            during preemption the snapshot lacks the victims, for a node with nominated pods it
            includes these pods, and for a member of a pod group the earlier members.
            None: plugins see the watched pods.

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
        """Return the value that a plugin wrote under a key in the present scheduling attempt.

        Raises: KeyError: no plugin wrote a value under the key.
        """
        return self._values[key]

    def write(self, key: str, value: object) -> None:
        """Keep a value under a key for later calls of plugins in the present scheduling attempt."""
        self._values[key] = value

    def delete(self, key: str) -> None:
        """Remove the value under a key; an absent key is no error."""
        self._values.pop(key, None)
