"""The informers of all plugins: one reflector and one store for each resource.

A handler of a plugin runs on a thread of its own. The thread hands the handler the last state of
each changed object, so that a slow handler costs no memory for each change.
"""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kubextend.cluster.debounce import Debounce
from kubextend.cluster.objects import ObjectStore
from kubextend.cluster.watch import Kind, Reflector
from kubextend.errors import NotListedError, PluginError
from kubextend.framework.wrong_answer import wrong_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.cluster.watch import Key
    from kubextend.framework.informer import (
        IndexFunction,
        Informer,
        KubeObject,
        OnChange,
        Owner,
        Resource,
    )
    from kubextend.metrics import Metrics

POINT: Final = "Informer"
"""What the failure of an index function or a handler is counted under."""


class Informers:
    """The informers of the resources that the plugins of a configuration name.

    Args:
        cluster: the connection to the Kubernetes API; None: the stores are filled by a test.
        resources: the resources.
        on_change: called on a thread of its own soon after objects changed.
        on_failure: called with the error of a plugin's index function or handler.
        not_started: returns the names of the plugins whose ``start`` has not ended; their handlers
            are not called yet.
    """

    def __init__(
        self,
        cluster: Cluster | None,
        resources: Iterable[Resource],
        on_change: Callable[[], object],
        on_failure: Callable[[PluginError], object],
        not_started: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._followed = {
            str(resource): _Followed(cluster, resource, on_change, on_failure, not_started)
            for resource in resources
        }

    def of(self, resource: Resource, owner: Owner) -> Informer:
        """Return the informer of a resource for one plugin.

        Raises: KeyError: the resource is none of those that the constructor got.
        """
        return PluginInformer(self._followed[str(resource)], owner)

    def __iter__(self) -> Iterator[_Followed]:
        """Iterate over the informers, one for each resource."""
        return iter(self._followed.values())

    def why_not_synced(self, names: Iterable[str]) -> str:
        """Return which resources of these names plugins cannot read yet; "" if there are none.

        Args:
            names: names of resources; an unknown name counts as not listed.
        """
        followed = ((name, self._followed.get(name)) for name in sorted(names))
        return "; ".join(
            name if each is None else each.why_not_synced()
            for name, each in followed
            if each is None or not each.synced
        )

    def last_error(self) -> str | None:
        """Return the last error of each informer that is not synced; None: there is no error."""
        errors = [each.last_error for each in self if not each.synced and each.last_error]
        return "; ".join(errors) or None

    def call_handlers(self) -> bool:
        """Call every started plugin's handlers here until they know each object's last state.

        Only tests call this method; they do not call ``start``.

        Returns: whether a handler was called.
        """
        called = [handler.call_all() for each in self for handler in each.handlers()]
        return any(called)

    def start(self) -> None:
        """Start to list and watch."""
        for followed in self:
            followed.start()

    def plugin_started(self) -> None:
        """Call the handlers of a plugin that has started with what they do not know yet."""
        for followed in self:
            followed.tell_handlers()

    def stop(self) -> None:
        """End the watches and the threads of the handlers."""
        for followed in self:
            followed.stop()


class _Followed:
    """One resource: its store, the reflector that fills it, and the handlers of plugins.

    Attributes:
        resource: the resource.
        store: the objects.
    """

    def __init__(
        self,
        cluster: Cluster | None,
        resource: Resource,
        on_change: Callable[[], object],
        on_failure: Callable[[PluginError], object],
        not_started: Callable[[], Collection[str]],
    ) -> None:
        self.resource = resource
        name, selector = str(resource), resource.field_selector
        self.store = ObjectStore(name, labels_only=bool(selector))
        self._reflector = None
        if cluster is not None:
            kind = Kind(name, resource.path, ObjectStore.keys, selector, bool(selector))
            self._reflector = Reflector(cluster, self.store, on_change, kind=kind)
        self._on_failure = on_failure
        self._not_started = not_started
        self._lock = threading.Lock()
        self._handlers: dict[tuple[Owner, OnChange], _Handler] = {}

    @property
    def synced(self) -> bool:
        """Whether the objects are listed, and the API serves the resource."""
        reflector = self._reflector
        return reflector is None or (reflector.synced and not reflector.missing)

    @property
    def last_error(self) -> str | None:
        """The error of the last failed list or watch; None if a watch has succeeded since then."""
        return None if self._reflector is None else self._reflector.last_error

    def add_metrics(self, metrics: Metrics) -> None:
        """Add the reflector's counts and what the store holds to every scrape."""
        reflector, resource = self._reflector, str(self.resource)
        assert reflector is not None  # noqa: S101  only a test has no cluster
        metrics.scrape(reflector.METRICS, lambda: reflector, resource=resource)
        metrics.scrape(ObjectStore.METRICS, lambda: self.store, resource=resource)

    def why_not_synced(self) -> str:
        """Return why plugins cannot read the objects now, in words that do not vary."""
        if self._reflector is not None and self._reflector.missing:
            return f"the API serves no {self.resource}"
        return f"{self.resource} are not listed yet"

    def failed(self, owner: Owner, what: str, error: Exception) -> None:
        """Report that a plugin's function, which ``what`` names, raised."""
        failure = PluginError.of(owner.plugin, POINT, error, f"{what} of {self.resource}: ")
        failure.profile = owner.profile
        self._on_failure(failure)

    def handlers(self) -> list[_Handler]:
        """Return the handlers of all plugins."""
        return list(self._handlers.values())

    def tell_handlers(self) -> None:
        """Let each handler look soon for objects that changed; never wait."""
        for handler in self.handlers():
            handler.thread.notify()

    def add_handler(self, owner: Owner, function: OnChange) -> None:
        """Call a plugin's function for each object and each change, on a thread of its own."""
        with self._lock:
            # A start that failed is repeated.
            if (owner, function) not in self._handlers:
                handler = _Handler(self, owner, function)
                self._handlers[owner, function] = handler
                if self._reflector is not None:
                    handler.thread.start()

    def has_started(self, owner: Owner) -> bool:
        """Return whether the plugin's ``start`` has ended."""
        return owner.plugin not in self._not_started()

    def start(self) -> None:
        """Start to list and watch."""
        if self._reflector is not None:
            self._reflector.start()

    def stop(self) -> None:
        """End the watch and the threads of the handlers."""
        if self._reflector is not None:
            self._reflector.stop()
        for handler in self.handlers():
            handler.thread.stop()


@dataclass(frozen=True, slots=True)
class PluginInformer:
    """The informer of one resource for one plugin; implements ``framework.informer.Informer``.

    Attributes:
        followed: the resource, shared by all plugins.
        owner: the plugin.
    """

    followed: _Followed
    owner: Owner

    @property
    def synced(self) -> bool:
        """Whether the objects are listed, and the API serves the resource."""
        return self.followed.synced

    def get(self, namespace: str, name: str) -> KubeObject | None:
        """Return an object; None if the API has no such object.

        Args:
            namespace: the namespace of the object; "" for a resource without namespaces.
            name: the name of the object.

        Raises: NotListedError: the objects are not listed yet.
        """
        return self._listed().get((namespace, name))

    def list(self, namespace: str | None = None) -> Sequence[KubeObject]:
        """Return all objects of a namespace, or of the cluster if ``namespace`` is None.

        Raises: NotListedError: the objects are not listed yet.
        """
        return self._listed().list(namespace)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index the objects by the values that a function returns for each object.

        Args:
            name: the name of the index; an earlier index of this plugin and name is replaced.
            function: returns the values by which an object is found.
        """
        failed = partial(self.followed.failed, self.owner, f"the index {name}")
        self.followed.store.add_index((self.owner, name), function, failed)

    def by_index(self, name: str, value: Hashable) -> Sequence[KubeObject]:
        """Return the objects for which the function of an index returned a value.

        Raises:
            KeyError: the plugin has added no index of this name.
            NotListedError: the objects are not listed yet.
        """
        return self._listed().by_index((self.owner, name), value)

    def on_change(self, function: OnChange) -> None:
        """Call a function for each object that there is, and for each change from then on.

        Args:
            function: called with the object before and after the change, once the plugin's
                ``start`` has ended.
        """
        self.followed.add_handler(self.owner, function)

    def _listed(self) -> ObjectStore:
        if not self.followed.synced:
            raise NotListedError(self.followed.why_not_synced())
        return self.followed.store


class _Handler:
    """Calls one function with the last state of each changed object, on a thread of its own.

    Args:
        followed: the resource.
        owner: the plugin.
        function: called with the object that the last call had, and with the object as it is now.

    Attributes:
        thread: calls ``call_all`` soon after each change.
    """

    def __init__(self, followed: _Followed, owner: Owner, function: OnChange) -> None:
        self.thread = Debounce(self.call_all, f"kubextend-on-{followed.resource}")
        self._followed = followed
        self._owner = owner
        self._function = function
        # Each key once, in the order of the changes; the watch adds to it.
        self._changed: OrderedDict[Key, None] = OrderedDict()
        self._known: dict[Key, KubeObject] = {}
        followed.store.listen(self._note)

    def call_all(self) -> bool:
        """Call the function on this thread for each object that changed since its last call.

        Returns: whether the function was called; not before the plugin has started.
        """
        called = False
        while self._changed and self._followed.has_started(self._owner):
            key, _ = self._changed.popitem(last=False)
            before, now = self._known.pop(key, None), self._followed.store.get(key)
            if now is not None:
                self._known[key] = now
            # An object may have come and gone meanwhile.
            if before is not now and not self.thread.is_stopped:
                self._call(before, now)
                called = True
        return called

    def _note(self, key: Key) -> None:
        self._changed[key] = None
        self.thread.notify()

    def _call(self, before: KubeObject | None, now: KubeObject | None) -> None:
        try:
            answer = self._function(before, now)
            if inspect.iscoroutine(answer):
                raise wrong_answer(answer, "None")  # noqa: TRY301  reported as any other
        except Exception as error:  # noqa: BLE001  a plugin's code
            self._followed.failed(self._owner, "the handler of changes", error)
