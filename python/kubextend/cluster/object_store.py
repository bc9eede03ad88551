"""The store of an informer: the objects of one resource as parsed JSON, with indexes.

The reflector's thread is the only writer. Readers take no lock: each read sees the objects as they
were before or after a whole list.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from kubextend.errors import WireError
from kubextend.framework.informer import MAX_OBJECT_BYTES, KubeObject, truncated
from kubextend.logs import AtMost
from kubextend.metrics import ScrapedGauge

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from kubextend.framework.informer import IndexFunction

    Key: TypeAlias = tuple[str, str]
    """Namespace and name of an object."""

# Users choose how many large objects they make, and how often they change them.
large = logging.getLogger(f"{__name__}.large")
large.addFilter(AtMost(1))


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A watch event that the store has applied.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        resource_version: the resourceVersion of the object; "" in an ERROR.
        changed: whether the store's content changed.
        code: the code of an ERROR event's Status, else 0.
        message: the message of an ERROR event's Status, else "".
    """

    type: str
    resource_version: str = ""
    changed: bool = False
    code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """The metadata of one page of a list.

    Attributes:
        resource_version: the resourceVersion of the list.
        continue_token: the token of the next page; "" on the last page.
    """

    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """How much a store holds.

    Attributes:
        objects: the number of objects.
        bytes: the bytes of their JSON, without ``managedFields`` and without what is not kept.
    """

    # Scraped with the label ``resource``.
    METRICS: ClassVar[tuple[ScrapedGauge[ObjectStats], ...]] = (
        ScrapedGauge("kubextend_informer_objects", "Objects kept.", lambda stats: stats.objects),
        ScrapedGauge(
            "kubextend_informer_bytes", "Bytes of the objects' JSON.", lambda stats: stats.bytes
        ),
    )

    objects: int
    bytes: int


class _Index:
    """The objects of a store by the values that a function returns for each.

    Args:
        function: returns the values of an object.
        on_error: called with the exception if the function raises; the object is in no entry then.
    """

    def __init__(self, function: IndexFunction, on_error: Callable[[Exception], object]) -> None:
        self._function = function
        self._on_error = on_error
        self._values: dict[Key, tuple[Hashable, ...]] = {}
        self._found: dict[Hashable, dict[Key, KubeObject]] = {}

    def find(self, value: Hashable) -> Sequence[KubeObject]:
        """Return the objects for which the function returned a value. Any thread may call this."""
        return list(self._found.get(value, {}).values())

    def replace(self, objects: Mapping[Key, KubeObject]) -> None:
        """Index these objects and no others."""
        fresh = _Index(self._function, self._on_error)
        for key, found in objects.items():
            fresh.put(key, found)
        self._values, self._found = fresh._values, fresh._found

    def put(self, key: Key, found: KubeObject) -> None:
        """Index an object in place of the object of the same key."""
        before = self._values.get(key, ())
        values = self._values_of(found)
        self._values[key] = values
        for value in values:
            self._found.setdefault(value, {})[key] = found
        # A set: an object may have thousands of values.
        kept = frozenset(values)
        self._leave(key, (value for value in before if value not in kept))

    def drop(self, key: Key) -> None:
        """Remove an object."""
        self._leave(key, self._values.pop(key, ()))

    def _leave(self, key: Key, values: Iterable[Hashable]) -> None:
        for value in values:
            bucket = self._found[value]
            bucket.pop(key, None)
            if not bucket:
                del self._found[value]

    def _values_of(self, found: KubeObject) -> tuple[Hashable, ...]:
        try:
            values = self._function(found)
            if isinstance(values, str):
                message = f"an index function returned the str {values!r:.80}, not a list of values"
                raise TypeError(message)  # noqa: TRY301  reported as any other
            return tuple(dict.fromkeys(values))
        except Exception as error:  # noqa: BLE001  a plugin's code; it must not end the watch
            self._on_error(error)
            return ()


class ObjectStore:
    """The objects of one resource, by namespace and name, as a reflector filled them in.

    An object is kept without ``metadata.managedFields``. Of an object whose JSON has more than 64
    KiB then, or more than about 250 objects and lists in each other, only the names are kept.

    Args:
        noun: the name of the resource, for log lines.
        labels_only: keep the names, labels and deletion of each object alone, up to 4 KiB.
    """

    def __init__(self, noun: str, *, labels_only: bool = False) -> None:
        self._noun = noun
        self._labels_only = labels_only
        # For writers; an index function may call the store again.
        self._lock = threading.RLock()
        self._objects: dict[Key, KubeObject] = {}
        self._sizes: dict[Key, int] = {}
        self._bytes = 0
        self._by_namespace = _Index(_namespace_of, _ignored)
        self._indexes: dict[Hashable, _Index] = {}
        self._listeners: tuple[Callable[[Iterable[Key]], object], ...] = ()

    def __len__(self) -> int:
        """Return how many objects the store holds."""
        return len(self._objects)

    def stats(self) -> ObjectStats:
        """Return how many objects and bytes the store holds."""
        return ObjectStats(len(self._objects), self._bytes)

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
        return self._by_namespace.find(namespace)

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
            index.replace(self._objects)
            self._indexes[name] = index

    def by_index(self, name: Hashable, value: Hashable) -> Sequence[KubeObject]:
        """Return the objects for which an index's function returned a value.

        Raises: KeyError: there is no index of this name.
        """
        return self._indexes[name].find(value)

    def listen(self, listener: Callable[[Iterable[Key]], object]) -> None:
        """Call a function with the keys of changed objects after each change, and at once with all.

        Args:
            listener: must neither wait nor raise.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)
            listener(self.keys())

    def relist(self) -> ObjectRelist:
        """Begin a list that is read page by page; its ``commit`` replaces the store's content."""
        return ObjectRelist(self)

    def apply(self, event_bytes: bytes, /) -> ObjectEvent:
        """Parse one watch event and apply it to the store.

        Raises: WireError: the bytes are no watch event.
        """
        event = _parsed(event_bytes)
        kind, found = event.get("type"), event.get("object")
        if kind not in _EVENTS or not isinstance(found, dict):
            message = f"{self._noun}: no watch event: {event_bytes[:80]!r}"
            raise WireError(message)
        if kind == "ERROR":
            message = str(found.get("message", ""))
            return ObjectEvent(kind, code=_int(found.get("code")), message=message)
        metadata = _metadata(found)
        version = str(metadata.get("resourceVersion", ""))
        if kind == "BOOKMARK":
            return ObjectEvent(kind, version)
        key = _key(metadata)
        with self._lock:
            if kind == "DELETED":
                changed = self._drop(key)
            else:
                self._put(key, *self.kept(found))
                changed = True
        if changed:
            self._tell((key,))
        return ObjectEvent(kind, version, changed)

    def replace(self, objects: dict[Key, tuple[KubeObject, int]]) -> None:
        """Hold these objects and no others.

        Args:
            objects: each object with the bytes of its JSON.
        """
        with self._lock:
            before = self._objects
            after = {key: _same(before.get(key), found) for key, (found, _) in objects.items()}
            changed = [key for key, found in after.items() if before.get(key) is not found]
            changed += [key for key in before if key not in after]
            self._sizes = {key: size for key, (_, size) in objects.items()}
            self._bytes = sum(self._sizes.values())
            self._by_namespace.replace(after)
            for index in self._indexes.values():
                index.replace(after)
            self._objects = after
        self._tell(changed)

    def kept(self, fields: dict[str, Any]) -> tuple[KubeObject, int]:
        """Return what the store keeps of an object, and the bytes of its JSON."""
        metadata, most = fields["metadata"], MAX_OBJECT_BYTES
        metadata.pop("managedFields", None)
        if self._labels_only:
            most = _MAX_LABELS_BYTES
            fields = {"metadata": {key: metadata[key] for key in _LABELS if key in metadata}}
        try:
            size = len(orjson.dumps(fields))
        except orjson.JSONEncodeError:
            why = "is too deep"
        else:
            if size <= most:
                return KubeObject(fields), size
            why = f"has {size} bytes, more than {most}"
        kind, names = fields.get("kind", self._noun), _key(metadata)
        large.warning("%s %s/%s %s; only its names are kept", kind, *names, why)
        return truncated(fields), 0

    def _put(self, key: Key, found: KubeObject, size: int) -> None:
        self._by_namespace.put(key, found)
        for index in self._indexes.values():
            index.put(key, found)
        self._objects[key] = found
        self._bytes += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _drop(self, key: Key) -> bool:
        if self._objects.pop(key, None) is None:
            return False
        self._bytes -= self._sizes.pop(key)
        self._by_namespace.drop(key)
        for index in self._indexes.values():
            index.drop(key)
        return True

    def _tell(self, keys: Sequence[Key]) -> None:
        for listener in self._listeners:
            listener(keys)


class ObjectRelist:
    """A list that is read page by page; the store shows no object of the list before ``commit``."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._objects: dict[Key, tuple[KubeObject, int]] = {}

    def page(self, list_bytes: bytes, /) -> ObjectPage:
        """Parse one page of the list, and return its continue token and resourceVersion.

        Raises: WireError: the bytes are not a list of objects.
        """
        page = _parsed(list_bytes)
        metadata, items = _metadata(page), page.get("items") or []
        if not isinstance(items, list):
            message = "a list whose items are no list"
            raise WireError(message)
        # The API leaves these two fields out in the items of its own resources.
        kind = {
            "apiVersion": page.get("apiVersion", ""),
            "kind": str(page.get("kind", "")).removesuffix("List"),
        }
        for item in items:
            if not isinstance(item, dict):
                message = "a list with an item that is no object"
                raise WireError(message)
            self._objects[_key(_metadata(item))] = self._store.kept({**kind, **item})
        version, token = metadata.get("resourceVersion"), metadata.get("continue")
        return ObjectPage(str(version or ""), str(token or ""))

    def commit(self) -> None:
        """Replace the objects of the store with the objects of all pages of the list."""
        self._store.replace(self._objects)


_LABELS: Final = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")
_MAX_LABELS_BYTES: Final = 4 << 10
_EVENTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})

# orjson parses 1,024 levels and writes 254, and kube-apiserver takes 10,000.
_DEEPEST: Final = 1000
_NESTING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        value = _loaded(text)
    except orjson.JSONDecodeError as error:
        raise WireError(str(error)) from error
    if not isinstance(value, dict):
        message = f"no JSON object: {text[:80]!r}"
        raise WireError(message)
    return value


def _loaded(text: bytes) -> Any:
    """Return parsed JSON; of values too deep for the parser, null.

    A user's object must not hide all others, so that it is cut where orjson gives up. It is still
    too deep to be kept whole.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        shallow = _cut_off(text)
        if shallow == text:
            raise
        return orjson.loads(shallow)


def _cut_off(text: bytes) -> bytes:
    """Return JSON with null in place of every object and list that is too deep to be parsed."""
    parts: list[bytes] = []
    depth = end = 0
    for found in _NESTING.finditer(text):
        mark = found[0]
        if mark in {b"{", b"["}:
            depth += 1
            if depth == _DEEPEST:
                parts += (text[end : found.start()], b"null")
        elif mark in {b"}", b"]"}:
            if depth == _DEEPEST:
                end = found.end()
            depth -= 1
    return b"".join((*parts, text[end:]))


def _metadata(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        message = "an object without metadata"
        raise WireError(message)
    return metadata


def _key(metadata: Mapping[str, Any]) -> Key:
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _same(before: KubeObject | None, now: KubeObject) -> KubeObject:
    """Return the earlier object if the API shows no newer version of it."""
    if before is None:
        return now
    old, new = before["metadata"], now["metadata"]
    keys = ("uid", "resourceVersion")
    return before if all(old.get(key, "") == new.get(key, "") for key in keys) else now


def _namespace_of(found: KubeObject) -> list[str]:
    return [str(found["metadata"].get("namespace", ""))]


def _ignored(_error: Exception) -> None:
    return None


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
