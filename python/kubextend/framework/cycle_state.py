"""CycleState: the values that plugins share during one attempt to schedule a pod."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubextend import core

__all__ = ["CycleState"]

# Each call of ``frozenset()`` would allocate 200 bytes.
_NONE: Final[frozenset[str]] = frozenset()
_NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})
_KEY: Final = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_MOST_ANNOTATION_BYTES: Final = 256 << 10


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
        "_annotations",
        "_values",
        "asked_for_pods",
        "pods_seen",
        "skip_filter_plugins",
        "skip_score_plugins",
    )

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self._annotations: dict[str, dict[str, str]] | None = None
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

    def annotate(self, pod: "core.Pod", key: str, value: str) -> None:
        """Make the pod's Binding add an annotation to the pod, if this attempt binds the pod.

        kube-apiserver sets node and annotations in one step: no reader sees the one without the
        other. Call this method in Reserve, Permit or PreBind: what Filter and Score add is lost if
        kubextend restarts before the bind, and PostBind is too late. It has no effect if a Bind
        plugin or kube-scheduler itself binds the pod. A later call with the same key replaces the
        value.

        Args:
            pod: the pod that is bound.
            key: the key of the annotation, such as ``example.com/slot``.
            value: the value of the annotation.

        Raises:
            TypeError: the key or the value is no str.
            ValueError: Kubernetes allows no such key, or all annotations are too large together.
        """
        for what, given in (("key", key), ("value", value)):
            if not isinstance(given, str):
                message = (
                    f"state.annotate takes a str as {what} of the annotation {key!r:.80}, not the"
                    f" {type(given).__name__} {given!r:.80}"
                )
                raise TypeError(message)
        if not _KEY.fullmatch(key):
            message = (
                f"{key!r:.80} is no key of an annotation; one that is has letters, digits, '-', '_'"
                " and '.', such as 'example.com/slot'"
            )
            raise ValueError(message)
        if self._annotations is None:
            self._annotations = {}
        of_pod = {**self._annotations.get(pod.uid, {}), key: value}
        size = sum(len(each.encode()) for item in of_pod.items() for each in item)
        if size > _MOST_ANNOTATION_BYTES:
            message = f"the annotations of a pod have at most {_MOST_ANNOTATION_BYTES} bytes"
            raise ValueError(message)
        self._annotations[pod.uid] = of_pod

    def annotations_of(self, uid: str) -> Mapping[str, str]:
        """Return what plugins annotated the pod of a UID with in this attempt.

        Args:
            uid: UID of the pod.
        """
        found = self._annotations
        return _NO_ANNOTATIONS if found is None else found.get(uid, _NO_ANNOTATIONS)
