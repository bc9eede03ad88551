"""Events that plugins write about Kubernetes objects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from kubextend import core
from kubextend.framework.informer import Owner

__all__ = ["About", "EventSink", "EventType", "PluginEvent", "PluginEvents", "Regarding"]

EventType: TypeAlias = Literal["Normal", "Warning"]

About: TypeAlias = core.Pod | core.NodeInfo | Mapping[str, Any]
"""What an Event is about: a pod, a node, or an object of an informer."""

_WORD: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")


@dataclass(frozen=True, slots=True)
class Regarding:
    """The reference to the object that an Event is about.

    Attributes:
        api_version: the object's apiVersion.
        kind: the object's kind.
        namespace: the object's namespace; "" if its kind has none.
        name: the object's name.
        uid: the object's UID.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, about: About) -> "Regarding":
        """Return the reference to a pod, a node, or an object of an informer.

        Raises: TypeError: the object is of another type, or it lacks its kind or its names.
        """
        if isinstance(about, core.Pod):
            return cls("v1", "Pod", about.namespace, about.name, about.uid)
        if isinstance(about, core.NodeInfo):
            return cls("v1", "Node", "", about.name, about.uid)
        try:
            metadata = about["metadata"]
            names = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
            return cls(about["apiVersion"], about["kind"], *names)
        except (KeyError, TypeError, AttributeError) as error:
            message = f"an Event is about a pod, a node or an object, and not {about!r:.80}"
            raise TypeError(message) from error


@dataclass(frozen=True, slots=True)
class PluginEvent:
    """An Event that a plugin writes.

    Attributes:
        owner: the plugin.
        regarding: the object that the Event is about.
        type: ``Warning`` if somebody has to act, else ``Normal``.
        reason: why the Event is written, one word in CamelCase.
        action: what the plugin did, one word in CamelCase.
        note: one sentence for people.
    """

    owner: Owner
    regarding: Regarding
    type: EventType
    reason: str
    action: str
    note: str


class EventSink(Protocol):
    """Writes Events of plugins to the Kubernetes API; ``cluster.EventRecorder`` implements this."""

    def record(self, event: PluginEvent) -> None:
        """Queue an Event; never wait or raise."""


class PluginEvents:
    """Writes the Events of one plugin; ``kubectl describe`` shows them.

    Any thread may call the methods. A thread of kubextend's own sends the Events. An Event with the
    object, type, reason and action of one that the plugin wrote in the ten minutes before is left
    out, whatever its note.

    Args:
        owner: the plugin.
        sink: sends the Events; None: there is no Kubernetes API, and nobody gets them.
    """

    def __init__(self, owner: Owner, sink: EventSink | None = None) -> None:
        self._owner = owner
        self._sink = sink

    def normal(self, about: About, reason: str, action: str, note: str) -> None:
        """Write an Event of the type Normal; the call never waits.

        Args:
            about: a pod, a node, or an object of an informer.
            reason: why, one word in CamelCase, such as ``QuotaExceeded``.
            action: what the plugin did, one word in CamelCase, such as ``Scheduling``.
            note: one sentence for people; kubextend cuts it off after 1,024 bytes.

        Raises:
            TypeError: ``about`` is of another type.
            ValueError: the reason or the action is no word in CamelCase.
        """
        self._write("Normal", about, reason, action, note)

    def warning(self, about: About, reason: str, action: str, note: str) -> None:
        """Write an Event of the type Warning, as ``normal`` does; the call never waits.

        Args:
            about: a pod, a node, or an object of an informer.
            reason: why, one word in CamelCase, such as ``QuotaExceeded``.
            action: what the plugin did, one word in CamelCase, such as ``Scheduling``.
            note: one sentence for people; kubextend cuts it off after 1,024 bytes.

        Raises:
            TypeError: ``about`` is of another type.
            ValueError: the reason or the action is no word in CamelCase.
        """
        self._write("Warning", about, reason, action, note)

    def _write(self, kind: EventType, about: About, reason: str, action: str, note: str) -> None:
        for what, word in (("reason", reason), ("action", action)):
            if not _WORD.fullmatch(word):
                message = f"the {what} of an Event is one word in CamelCase, and not {word!r:.80}"
                raise ValueError(message)
        event = PluginEvent(self._owner, Regarding.of(about), kind, reason, action, str(note))
        if self._sink is not None:
            self._sink.record(event)
