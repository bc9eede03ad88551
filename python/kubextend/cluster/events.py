"""Writes Events of kubextend about pods, and Events of plugins about any object.

kubextend itself writes Events on pods that Permit plugins hold, on pods whose scheduling gate
cannot be removed, and on its own pod. `kubectl describe` shows the Events. A thread of its own
sends the Events, so that no caller waits. An Event that the API refuses is lost, which does not
change how the pod is scheduled.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kubextend.cluster.api_call import NAME, Call
from kubextend.cluster.outbox import Topic, Write, writes_counted
from kubextend.framework.events import Regarding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubextend.cluster.outbox import Outbox
    from kubextend.core import Pod
    from kubextend.framework.events import PluginEvent

CONTROLLER = "kubextend"

AGAIN_S = 50 * 60.0
"""Seconds before an Event of a pod is written again; the API deletes Events after an hour."""
PLUGIN_AGAIN_S = 10 * 60.0
"""Seconds before an Event of a plugin is written again, perhaps with another note."""
MOST_REMEMBERED = 10_000
CALL_S = 5.0

NO_NAMESPACE = "default"
"""The namespace of Events about objects of a kind that has no namespaces."""
MOST_NOTE_BYTES = 1024
MOST_NAME_CHARS = 253


@dataclass(frozen=True, slots=True)
class Note:
    """The content of a Kubernetes Event on a pod.

    Attributes:
        reason: the Event's reason, one word in CamelCase.
        action: what kubextend was about to do with the pod, one word.
        type: ``Warning`` if an operator has to act, else ``Normal``.
        text: the Event's note, one sentence.
    """

    reason: str
    action: str
    type: Literal["Normal", "Warning"]
    text: str


def waiting_on_permit(node_name: str, plugins: Sequence[str]) -> Note:
    """Return the content of an Event that says which Permit plugins hold a pod for a node."""
    text = f"held for node {node_name}, waiting on permit of {', '.join(sorted(plugins))}"
    return Note("WaitingOnPermit", "Binding", "Normal", text)


class EventRecorder:
    """Writes Events by an outbox.

    An Event of kubextend's own about a pod is written at most once in 50 minutes. A plugin's Event
    about an object is written at most once in ten minutes for one type, reason and action.

    Args:
        outbox: sends the Events.
    """

    METRICS: ClassVar = writes_counted("kubextend_held_pod_events", "Events about pods")

    def __init__(self, outbox: Outbox) -> None:
        self.stats = outbox.stats[Topic.EVENT]
        self._outbox = outbox
        self._lock = threading.Lock()
        self._told_at: OrderedDict[str, float] = OrderedDict()

    def waiting(self, pod: Pod, node_name: str, plugins: Sequence[str]) -> None:
        """Queue an Event on a pod that Permit plugins hold; the Event names the node and plugins.

        A pod gets one Event in 50 minutes for one set of plugins, even if they hold the pod for
        another node meanwhile. The call never waits and never raises.

        Args:
            pod: the pod that is held.
            node_name: the node that the pod is to run on.
            plugins: names of the plugins that hold the pod.
        """
        key = " ".join((pod.uid, *sorted(plugins)))
        self._write_about(pod, key, waiting_on_permit(node_name, plugins))

    def set_aside(self, pod: Pod, why: str) -> None:
        """Queue an Event on a pod whose scheduling gate cannot be removed; never wait or raise.

        A pod gets one Event about its gate in 50 minutes, with the reason of the first call.

        Args:
            pod: the pod whose gate cannot be removed.
            why: the reason, one sentence.
        """
        note = Note("SetAside", "Releasing", "Warning", why)
        self._write_about(pod, f"{pod.uid} set aside", note)

    def record(self, event: PluginEvent) -> None:
        """Queue an Event of a plugin, unless it was written lately; never wait or raise.

        Args:
            event: the Event.
        """
        said = event.type, event.reason, event.action
        key = " ".join((*event.owner, event.regarding.uid, *said))
        note = Note(event.reason, event.action, event.type, event.note)
        self._write(key, event.regarding, note, PLUGIN_AGAIN_S)

    def _write_about(self, pod: Pod, key: str, note: Note) -> None:
        regarding = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._write(key, regarding, note, AGAIN_S)

    def _write(self, key: str, regarding: Regarding, note: Note, again_s: float) -> None:
        namespace, name = regarding.namespace or NO_NAMESPACE, regarding.name
        if not (regarding.uid and NAME.fullmatch(namespace) and NAME.fullmatch(name)):
            self.stats.dropped += 1
        elif self._is_news(key, again_s):
            body = event(regarding, note, datetime.now(UTC))
            path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            call = Call("POST", path, CALL_S, body=body)
            self._outbox.put(Write(Topic.EVENT, namespace, key, lambda: call))

    def _is_news(self, key: str, again_s: float) -> bool:
        now = time.monotonic()
        with self._lock:
            told_at = self._told_at.get(key)
            if told_at is not None and now - told_at < again_s:
                return False
            self._told_at[key] = now
            self._told_at.move_to_end(key)
            if len(self._told_at) > MOST_REMEMBERED:
                self._told_at.popitem(last=False)
        return True


def event(regarding: Regarding, note: Note, now: datetime) -> dict[str, Any]:
    """Return an Event of events.k8s.io/v1, as a JSON object.

    Args:
        regarding: the object that the Event is about.
        note: the content of the Event.
        now: the present time with its time zone; part of the Event's name, as in Kubernetes.
    """
    namespace, name = regarding.namespace or NO_NAMESPACE, regarding.name
    # A plugin may quote what no UTF-8 can encode, such as a lone surrogate.
    said = note.text.encode(errors="backslashreplace")[:MOST_NOTE_BYTES]
    reference = {"apiVersion": regarding.api_version, "kind": regarding.kind, "name": name}
    reference |= {"namespace": regarding.namespace, "uid": regarding.uid}
    moment = f".{round(now.timestamp() * 1e6):x}"
    unique = name[: MOST_NAME_CHARS - len(moment)].rstrip("-.") + moment
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": unique},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": note.type,
        "reason": note.reason,
        "action": note.action,
        "note": said.decode(errors="ignore"),
        "reportingController": CONTROLLER,
        "reportingInstance": f"{CONTROLLER}-{socket.gethostname()}",
        "regarding": {key: value for key, value in reference.items() if value},
    }
