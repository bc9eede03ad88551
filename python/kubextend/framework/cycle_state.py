"""What the plugins of one scheduling attempt tell each other."""

__all__ = ["CycleState"]


class CycleState:
    """A place for values by key, begun anew for each attempt.

    Attributes:
        skip_filter_plugins: names of plugins whose PreFilter answered Skip.
        skip_score_plugins: names of plugins whose PreScore answered Skip.
    Source: kubernetes v1.36 pkg/scheduler/framework/cycle_state.go
    """

    __slots__ = ("_values", "skip_filter_plugins", "skip_score_plugins")

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self.skip_filter_plugins: frozenset[str] = frozenset()
        self.skip_score_plugins: frozenset[str] = frozenset()

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
