"""The tree of errors that kubextend raises on purpose; every module may import it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kubextend._native import KubextendError, TruncatedPodError, WireError

__all__ = [
    "ClusterError",
    "ConfigError",
    "Issue",
    "KubextendError",
    "PluginError",
    "TruncatedPodError",
    "WireError",
]


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong in a configuration file.

    Attributes:
        path: the place, as ``profiles[0].plugins.filter.enabled[1].name``; empty for the whole
            file.
        message: what is wrong.
        value: the value at that place.
        hint: what would be right; may be empty.
    """

    path: str
    message: str
    value: object = None
    hint: str = ""

    def __str__(self) -> str:
        """Return path, message and hint on one line."""
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" ({self.hint})" if self.hint else "")


class ConfigError(KubextendError):
    """Every issue of a configuration, at once."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class PluginError(KubextendError):
    """A plugin raised, or returned a wrong value.

    Attributes:
        plugin: the name of the plugin.
        extension_point: the framework's name of the method, such as ``Filter``.
        message: what happened.
        pod: namespace and name of the pod that the plugin was asked about; empty where unknown.
        uid: UID of that pod.
        profile: schedulerName of that pod.
        node: the node that the failure is about; empty where no single one is known.
    """

    def __init__(self, plugin: str, extension_point: str, message: str) -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        self.message = message
        self.pod = self.uid = self.profile = self.node = ""
        super().__init__(f'running "{plugin}" {extension_point} plugin: {message}')

    @property
    def facts(self) -> dict[str, str]:
        """The known attributes, as the fields of a log line."""
        names = ("plugin", "extension_point", "pod", "uid", "profile", "node")
        known = {name: getattr(self, name) for name in names}
        return {name: value for name, value in known.items() if value}


class ClusterError(KubextendError):
    """The Kubernetes API refused, or could not be reached.

    Attributes:
        status: the HTTP status; None where there was no answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)
