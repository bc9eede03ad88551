"""The general exceptions of kubextend; all are subclasses of ``KubextendError``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from kubextend._native import KubextendError, TruncatedPodError, WireError

__all__ = [
    "ClusterError",
    "ConfigError",
    "Issue",
    "KubextendError",
    "NotListedError",
    "PluginError",
    "TruncatedObjectError",
    "TruncatedPodError",
    "WireError",
]


@dataclass(frozen=True, slots=True)
class Issue:
    """One error in a configuration file.

    Attributes:
        path: the location in the file, as ``profiles[0].plugins.filter.enabled[1].name``; "" for
            the whole file.
        message: what is wrong.
        value: the value at the location; None if the file has no value there.
        hint: what would be right; may be empty.
    """

    path: str
    message: str
    value: object = None
    hint: str = ""

    def __str__(self) -> str:
        """Return path, message and hint of the issue on one line."""
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" ({self.hint})" if self.hint else "")


class ConfigError(KubextendError):
    """A configuration of kubextend cannot run, because of one or more issues.

    Attributes:
        issues: all issues that make the configuration unusable.
    """

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class PluginError(KubextendError):
    """A plugin's method raised, returned a wrong value, or could not be called.

    Attributes:
        plugin: the name of the plugin.
        extension_point: the framework's name of the method, such as ``Filter``.
        message: what the plugin did wrong, or why it could not be called.
        pod: ``namespace/name`` of the pod that the call was about; "" if unknown.
        uid: UID of the pod; "" if unknown.
        profile: schedulerName of the pod; "" if unknown.
        node: name of the node that the failure is about; "" if the failure is not about one node.
    """

    def __init__(self, plugin: str, extension_point: str, message: str) -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        self.message = message
        self.pod = self.uid = self.profile = self.node = ""
        super().__init__(f'running "{plugin}" {extension_point} plugin: {message}')

    @classmethod
    def of(cls, plugin: str, extension_point: str, error: BaseException, what: str = "") -> Self:
        """Return the error for what a plugin's method raised, which becomes its cause.

        Args:
            plugin: the name of the plugin.
            extension_point: the framework's name of the method, such as ``Filter``.
            error: what the method raised; of its text, the first 1,024 characters are told.
            what: names what was called, if that is not the method.
        """
        try:
            text = f"{error!s:.1024}"
        except Exception:  # noqa: BLE001  the text of a plugin's exception is a plugin's code too
            text = "an exception without a text"
        made = cls(plugin, extension_point, f"{what}{type(error).__name__}: {text}")
        made.__cause__ = error
        return made

    @property
    def facts(self) -> dict[str, str]:
        """The attributes that are not empty, without ``message``, as fields of a log line."""
        names = ("plugin", "extension_point", "pod", "uid", "profile", "node")
        known = {name: getattr(self, name) for name in names}
        return {name: value for name, value in known.items() if value}


class ClusterError(KubextendError):
    """The Kubernetes API refused a call, or could not be reached.

    Attributes:
        status: the HTTP status of the API's response; None without a response.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class NotListedError(KubextendError):
    """An informer has no complete list of its objects, so that no plugin may read them."""


class TruncatedObjectError(KubextendError):
    """A plugin read a field of an object that is too large for an informer to keep the field."""
