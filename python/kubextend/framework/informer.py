"""Informers: what a plugin reads objects of any resource with, and the values that it reads.

A plugin's class names the resources in ``informers``; ``handle.informer`` returns the informer.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias

from kubextend.errors import KubextendError, NotListedError, TruncatedObjectError

__all__ = [
    "MAX_OBJECT_BYTES",
    "IndexFunction",
    "Informer",
    "InformerSource",
    "KubeObject",
    "OnChange",
    "Owner",
    "Resource",
    "UnwatchedInformer",
    "truncated",
]

MAX_OBJECT_BYTES: Final = 64 << 10
"""The most bytes of JSON of an object that an informer keeps whole, without ``managedFields``.

The limit exists because users choose how large their objects are.
"""

_PLURAL: Final = re.compile(r"[a-z][a-z0-9]{0,62}")
_VERSION: Final = re.compile(r"v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?")
_GROUP: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_GROUP_PARTS: Final = 3
_SELECTED: Final = re.compile(r"([^?]*)(?:\?([A-Za-z.]+=[\w.-]+))?", re.ASCII)
_NAMES_OF_TRUNCATED: Final = ("name", "namespace", "uid", "resourceVersion")


def _shown(value: Any) -> Any:
    """Return a JSON value that nobody can change: objects and lists in it are wrapped."""
    kind = type(value)
    if kind is dict:
        return KubeObject(value)
    return _List(value) if kind is list else value


class KubeObject(Mapping[str, Any]):
    """A Kubernetes object, or an object within one: its parsed JSON, read-only to the last field.

    Fields are read as in a dict: ``claim["spec"].get("storageClassName")``. Lists in the object are
    read-only sequences. The object never changes: a change in the API makes another object. Any
    thread may read the object.

    Args:
        fields: the parsed JSON; nobody may change it any more.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, key: str) -> Any:
        """Return the value of a field, read-only.

        Raises:
            KeyError: the object has no such field.
            TruncatedObjectError: the object is too large for kubextend to keep its fields.
        """
        return _shown(self._fields[key])

    def __contains__(self, key: object) -> bool:
        """Return whether the object has a field of this name."""
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the object's fields."""
        return iter(self._fields)

    def __len__(self) -> int:
        """Return how many fields the object has."""
        return len(self._fields)

    def __repr__(self) -> str:
        """Return the object's JSON as Python writes it."""
        return f"KubeObject({self._fields!r})"


class _List(Sequence[Any]):
    """A list in a Kubernetes object, read-only."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __getitem__(self, index: Any) -> Any:
        found = self._items[index]
        return _List(found) if isinstance(index, slice) else _shown(found)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _List):
            return self._items == other._items
        return isinstance(other, list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items)


class _Truncated(KubeObject):
    """An object of which only the names are kept; to ask for any other field is an error."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        if key not in self._fields:
            raise self._too_large(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        if key not in self._fields:
            raise self._too_large(key)
        return True

    def _too_large(self, key: object) -> TruncatedObjectError:
        names = self._fields.get("metadata", self._fields)
        message = (
            f"{names.get('namespace', '')}/{names.get('name', '')} is too large"
            f" or too deep, so its field {key!r} is not kept"
        )
        return TruncatedObjectError(message)


def truncated(fields: Mapping[str, Any]) -> KubeObject:
    """Return a too large object without its fields, except for its kind and its names.

    Args:
        fields: the parsed JSON of the object, with ``metadata``.
    """
    metadata = fields["metadata"]
    names = _Truncated({key: metadata.get(key, "") for key in _NAMES_OF_TRUNCATED})
    kept = {key: fields[key] for key in ("apiVersion", "kind") if key in fields}
    return _Truncated({**kept, "metadata": names})


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the Kubernetes API, such as ``persistentvolumeclaims``.

    Attributes:
        group: the API group; "" for the core group.
        version: the version of the group.
        plural: the plural name of the resource, as in the API's paths.
        field_selector: the value of a field that the objects have, of which only the names, labels
            and deletionTimestamp are kept, up to 4 KiB; empty: all objects, whole.
    """

    group: str
    version: str
    plural: str
    field_selector: str = ""

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the resource that a plugin's ``informers`` name.

        Args:
            name: the plural of a resource of the core group, or ``group/version/plural``; a field
                selector may follow, as in ``pods?status.phase=Succeeded``.

        Raises: KubextendError: the text has neither form.
        """
        found = _SELECTED.fullmatch(name) if isinstance(name, str) else None
        resource, selector = found.groups("") if found else ("", "")
        parts = resource.split("/")
        if len(parts) == 1 and _PLURAL.fullmatch(resource):
            return cls("", "v1", resource, selector)
        patterns = (_GROUP, _VERSION, _PLURAL)
        if len(parts) == _GROUP_PARTS and all(map(re.Pattern.fullmatch, patterns, parts)):
            return cls(parts[0], parts[1], parts[2], selector)
        message = (
            f"{name!r} names no resource: write the plural of a core resource, such as"
            ' "persistentvolumeclaims", or "group/version/plural", such as "apps/v1/deployments"'
        )
        raise KubextendError(message)

    @property
    def path(self) -> str:
        """The API path of all objects of the resource."""
        root = f"/apis/{self.group}" if self.group else "/api"
        return f"{root}/{self.version}/{self.plural}"

    def __str__(self) -> str:
        """Return the name of the resource as in a plugin's ``informers``."""
        name = f"{self.group}/{self.version}/{self.plural}" if self.group else self.plural
        return f"{name}?{self.field_selector}" if self.field_selector else name


class Owner(NamedTuple):
    """The plugin instance that uses an informer: kubextend makes one instance for each profile.

    Attributes:
        plugin: the name of the plugin.
        profile: the name of the profile; "" in a test.
    """

    plugin: str
    profile: str = ""


IndexFunction: TypeAlias = Callable[[KubeObject], Iterable[Hashable]]
"""A function that returns the values by which an object is found in an index."""

OnChange: TypeAlias = Callable[[KubeObject | None, KubeObject | None], object]
"""A function called with the object before a change (None: new) and after it (None: deleted)."""


class Informer(Protocol):
    """The objects of one resource, kept up to date by list and watch.

    All plugins of all profiles share the objects; indexes and handlers belong to the plugin. Any
    thread may call the methods. No method waits for the Kubernetes API.
    """

    @property
    def synced(self) -> bool:
        """Whether the objects are listed, and the API serves the resource."""

    def get(self, namespace: str, name: str) -> KubeObject | None:
        """Return an object; None if the API has no such object.

        Args:
            namespace: the namespace of the object; "" for a resource without namespaces.
            name: the name of the object.

        Raises: NotListedError: the objects are not listed yet.
        """

    def list(self, namespace: str | None = None) -> Sequence[KubeObject]:
        """Return all objects of a namespace, or of the cluster if ``namespace`` is None.

        Raises: NotListedError: the objects are not listed yet.
        """

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index the objects by the values that a function returns for each object.

        The function runs on the watch's thread for each new and each changed object, so it must be
        quick. An object for which the function raises is in no entry of the index; kubextend logs
        and counts the failure. A second index of the same name replaces the first one.
        """

    def by_index(self, name: str, value: Hashable) -> Sequence[KubeObject]:
        """Return the objects for which the function of an index returned a value.

        Raises:
            KeyError: the plugin has added no index of this name.
            NotListedError: the objects are not listed yet.
        """

    def on_change(self, function: OnChange) -> None:
        """Call a function for each object that there is, and for each change from then on.

        The calls begin once ``start`` of the plugin has ended. The function runs on a thread of its
        own and may block. Several changes of one object may become one call, with the last state.
        kubextend logs and counts an exception, and goes on.
        """


class InformerSource(Protocol):
    """The informers of all plugins; ``cluster.Informers`` implements this interface."""

    def of(self, resource: Resource, owner: Owner) -> Informer:
        """Return the informer of a resource for one plugin.

        Raises: KeyError: no plugin has named the resource.
        """

    def why_not_synced(self, names: Iterable[str]) -> str:
        """Return which resources of these names plugins cannot read yet; "" if there are none."""


class UnwatchedInformer:
    """The informer of a resource where kubextend has no access to a Kubernetes API.

    Args:
        resource: the resource.
    """

    synced: Final = False

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def get(self, namespace: str, name: str) -> KubeObject | None:
        """Raise NotListedError: without a Kubernetes API there is no object to read."""
        del namespace, name
        raise self._unwatched()

    def list(self, namespace: str | None = None) -> Sequence[KubeObject]:
        """Raise NotListedError: without a Kubernetes API there are no objects to list."""
        del namespace
        raise self._unwatched()

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Do nothing: without a Kubernetes API there is no object to index."""

    def by_index(self, name: str, value: Hashable) -> Sequence[KubeObject]:
        """Raise NotListedError: without a Kubernetes API there are no objects to find."""
        del name, value
        raise self._unwatched()

    def on_change(self, function: OnChange) -> None:
        """Do nothing: without a Kubernetes API no object changes."""

    def _unwatched(self) -> NotListedError:
        return NotListedError(f"{self._resource} cannot be watched: configure `cluster`")
