"""The store of an informer: the objects of one resource as parsed JSON, with indexes.

The reflector's thread is the only writer. Readers take no lock: an object whose indexed value
changes is found by the old value or by the new one at any time.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeGuard

import orjson

from kubextend.errors import WireError
from kubextend.framework.informer import MAX_OBJECT_BYTES, KubeObject, truncated
from kubextend.logs import AtMost
from kubextend.metrics import ScrapedGauge

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from kubextend.cluster.watch import Key
    from kubextend.framework.informer import IndexFunction

# Users choose how many large objects they make, and how often they change them.
large = logging.getLogger(f"{__name__}.large")
large.addFilter(AtMost(1))

_BY_NAMESPACE: Final = "namespace"
"""The name of the store's own index; the names of plugins' indexes hold their owners."""
_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
_TOO_DEEP: Final = "depth limit"
_LABELS: Final = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")
_MAX_LABELS_BYTES: Final = 4 << 10


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A watch event that the store has applied.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; "": an object that was passed over.
        namespace: the namespace of the object.
        name: the name of the object.
        resource_version: the resourceVersion of the object; "" in an ERROR.
        changed: whether the store's content changed.
        code: the code of an ERROR event's Status, else 0.
        message: the message of an ERROR event's Status, else "".
    """

    type: str
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    changed: bool = False
    code: int = 0
    message: str = ""


@dataclass(slots=True)
class _Index:
    """The objects of a store by the values that a function returns for each.

    Attributes:
        function: returns the values of an object.
        on_error: called with the exception if the function raises; the object is in no entry then.
    """

    function: IndexFunction
    on_error: Callable[[Exception], object]
    _values: dict[Key, dict[Hashable, None]] = field(default_factory=dict)
    _found: dict[Hashable, dict[Key, KubeObject]] = field(default_factory=dict)

    def find(self, value: Hashable) -> Sequence[KubeObject]:
        """Return the objects for which the function returned a value. Any thread may call this."""
        return list(self._found.get(value, {}).values())

    def put(self, key: Key, found: KubeObject | None) -> None:
        """Index an object in place of the object of the same key; None: there is none any more."""
        before = self._values.pop(key, {})
        values = {} if found is None else self._values_of(found)
        if found is not None:
            self._values[key] = values
            for value in values:
                self._found.setdefault(value, {})[key] = found
        for value in before.keys() - values.keys():
            bucket = self._found[value]
            del bucket[key]
            if not bucket:
                del self._found[value]

    def _values_of(self, found: KubeObject) -> dict[Hashable, None]:
        try:
            values = self.function(found)
            if isinstance(values, str):
                message = f"an index function returned the str {values!r:.80}, not a list of values"
                raise TypeError(message)  # noqa: TRY301  reported as any other
            return dict.fromkeys(values)
        except Exception as error:  # noqa: BLE001  a plugin's code; it must not end the watch
            self.on_error(error)
            return {}


class ObjectStore:
    """The objects of one resource, by namespace and name, as a reflector filled them in.

    An object is kept without ``metadata.managedFields``. Of an object whose JSON has more than 64
    KiB then, or more than about 250 objects and lists in each other, only the names are kept.

    Args:
        noun: the name of the resource, for log lines.
        labels_only: keep the names, labels and deletion of each object alone, up to 4 KiB.

    Attributes:
        held_bytes: the bytes of the objects' JSON, without ``managedFields`` and what is not kept.
    """

    held_bytes: int
    # Scraped with the label ``resource``.
    METRICS: ClassVar[tuple[ScrapedGauge[ObjectStore], ...]] = (
        ScrapedGauge("kubextend_informer_objects", "Objects kept.", len),
        ScrapedGauge(
            "kubextend_informer_bytes",
            "Bytes of the objects' JSON.",
            lambda store: store.held_bytes,
        ),
    )

    def __init__(self, noun: str, *, labels_only: bool = False) -> None:
        self.held_bytes = 0
        self._noun = noun
        self._labels_only = labels_only
        # For writers; an index function may call the store again.
        self._lock = threading.RLock()
        self._objects: dict[Key, KubeObject] = {}
        self._sizes: dict[Key, int] = {}
        self._indexes: dict[Hashable, _Index] = {}
        self._listeners: tuple[Callable[[Key], object], ...] = ()
        self.add_index(_BY_NAMESPACE, _namespace_of, lambda _error: None)

    def __len__(self) -> int:
        """Return how many objects the store holds."""
        return len(self._objects)

    def get(self, key: Key) -> KubeObject | None:
        """Return the object of a namespace and name; None if there is none."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """Return the namespace and name of every object."""
        return list(self._objects)

    def list(self, namespace: str | None = None) -> Sequence[KubeObject]:
        """Return the objects of a namespace; None: of all namespaces."""
        if namespace is None:
            return list(self._objects.values())
        return self.by_index(_BY_NAMESPACE, namespace)

    def add_index(
        self, name: Hashable, function: IndexFunction, on_error: Callable[[Exception], object]
    ) -> None:
        """Add an index over the objects, in place of an index of the same name.

        Args:
            name: identifies the index.
            function: returns the values by which an object is found.
            on_error: called if the function raises; the object is in no entry of the index then.
        """
        index = _Index(function, on_error)
        with self._lock:
            for key, found in self._objects.items():
                index.put(key, found)
            self._indexes[name] = index

    def by_index(self, name: Hashable, value: Hashable) -> Sequence[KubeObject]:
        """Return the objects for which an index's function returned a value.

        Raises: KeyError: there is no index of this name.
        """
        return self._indexes[name].find(value)

    def listen(self, listener: Callable[[Key], object]) -> None:
        """Call a function with the key of each object, and after each change with that key.

        Args:
            listener: must neither wait nor raise.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)
            for key in self._objects:
                listener(key)

    def apply(self, event_bytes: bytes, /) -> ObjectEvent:
        """Parse one watch event and apply it to the store.

        An object that is too deep to be parsed is passed over: a user's object must not hide all
        others. kube-apiserver takes 10,000 levels, and orjson reads 1,024.

        Raises: WireError: the bytes are no watch event.
        """
        try:
            event = orjson.loads(event_bytes)
        except orjson.JSONDecodeError as error:
            if _TOO_DEEP not in str(error):
                raise WireError(str(error)) from error
            large.warning("an object of %s is too deep; it is passed over", self._noun)
            return ObjectEvent("")
        kind, found = (event.get("type"), event.get("object")) if _is_dict(event) else (None, None)
        if kind == "ERROR" and _is_dict(found):
            code, message = found.get("code"), str(found.get("message", ""))
            return ObjectEvent(kind, code=code if isinstance(code, int) else 0, message=message)
        if kind not in _TYPES or not _is_dict(found) or not _is_dict(found.get("metadata")):
            message = f"{self._noun}: no watch event: {event_bytes[:80]!r}"
            raise WireError(message)
        metadata = found["metadata"]
        key = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        version = str(metadata.get("resourceVersion", ""))
        changed = kind != "BOOKMARK" and self._put(key, None if kind == "DELETED" else found)
        return ObjectEvent(kind, *key, version, changed)

    def _put(self, key: Key, fields: dict[str, Any] | None) -> bool:
        """Keep an object, or drop it for None; return whether the store's content changed."""
        held = self._objects.get(key)
        if fields is None:
            found, size = None, 0
        elif held is not None and _is_same(held["metadata"], fields["metadata"]):
            found, size = held, self._sizes[key]
        else:
            found, size = self._kept(key, fields)
        if found is held:
            return False
        with self._lock:
            for index in self._indexes.values():
                index.put(key, found)
            self.held_bytes += size - self._sizes.pop(key, 0)
            if found is None:
                del self._objects[key]
            else:
                self._objects[key], self._sizes[key] = found, size
            for listener in self._listeners:
                listener(key)
        return True

    def _kept(self, key: Key, fields: dict[str, Any]) -> tuple[KubeObject, int]:
        """Return what the store keeps of an object, and the bytes of its JSON."""
        metadata, most = fields["metadata"], MAX_OBJECT_BYTES
        metadata.pop("managedFields", None)
        if self._labels_only:
            most = _MAX_LABELS_BYTES
            fields = {
                "metadata": {field: metadata[field] for field in _LABELS if field in metadata}
            }
        try:
            size = len(orjson.dumps(fields))
        except orjson.JSONEncodeError:
            why = "is too deep"
        else:
            if size <= most:
                return KubeObject(fields), size
            why = f"has {size} bytes, more than {most}"
        kind = fields.get("kind", self._noun)
        large.warning("%s %s/%s %s; only its names are kept", kind, *key, why)
        return truncated(fields), 0


def _is_same(held: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Return whether the API shows an object as the store has it, as after a fresh start."""
    same = ("uid", "resourceVersion")
    return all(shown.get(field) and held.get(field) == shown[field] for field in same)


def _is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _namespace_of(found: KubeObject) -> list[str]:
    return [str(found["metadata"].get("namespace", ""))]
