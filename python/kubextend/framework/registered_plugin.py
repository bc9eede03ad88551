"""RegisteredPlugin: a plugin class under its name, with what the class extends and needs."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kubextend.errors import KubextendError, PluginError
from kubextend.framework.admission import AdmissionRules
from kubextend.framework.handle import Handle
from kubextend.framework.informer import Resource
from kubextend.framework.plugin import METHODS_OF_POINT, Plugin

__all__ = ["RegisteredPlugin"]


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin class under its name in a configuration.

    Attributes:
        name: the plugin's name in a configuration.
        plugin_class: the class. Its constructor takes an instance of its ``Args``, if the class has
            ``Args``, and ``handle``, if the constructor has a parameter of that name.
    """

    name: str
    # Any: a plugin may define any of the extension points, and its constructor is its own.
    plugin_class: type[Any]

    @property
    def extension_points(self) -> frozenset[str]:
        """The extension points that the plugin extends, as spelled in a configuration."""
        points = METHODS_OF_POINT.items()
        return frozenset(
            point
            for point, methods in points
            if any(getattr(self.plugin_class, method, None) is not None for method in methods)
        )

    @property
    def args_model(self) -> type[BaseModel] | None:
        """The pydantic model of the plugin's arguments; None if the plugin takes no arguments."""
        return getattr(self.plugin_class, "Args", None)

    @property
    def needs_pods(self) -> bool:
        """Whether the plugin's class has ``needs_pods = True``: it reads the pods on nodes."""
        return bool(getattr(self.plugin_class, "needs_pods", False))

    @property
    def informers(self) -> tuple[str, ...]:
        """The resources that the plugin's class names in ``informers``: it reads their objects.

        Raises: KubextendError: the attribute holds something else than names of resources.
        """
        names = getattr(self.plugin_class, "informers", ())
        if not isinstance(names, tuple | list):
            message = f'informers of plugin "{self.name}" is no tuple: informers = ("services",)'
            raise KubextendError(message)
        for name in names:
            try:
                Resource.of(name)
            except KubextendError as error:
                message = f'informers of plugin "{self.name}": {error}'
                raise KubextendError(message) from error
        return tuple(names)

    @property
    def needs_details(self) -> bool:
        """Whether the plugin's class has ``needs_details = True``: it reads details of objects."""
        return bool(getattr(self.plugin_class, "needs_details", False))

    @property
    def needs_raw(self) -> bool:
        """Whether the plugin's class has ``needs_raw = True``: it reads the JSON of objects."""
        return bool(getattr(self.plugin_class, "needs_raw", False))

    def admission(self, args: BaseModel | None) -> AdmissionRules | None:
        """Return the static rules of the plugin; None if the plugin offers no ``admission``.

        Args:
            args: an instance of ``args_model``; None means the defaults.

        Raises: PluginError: ``admission`` raised, or returned no AdmissionRules.
        """
        offer = getattr(self.plugin_class, "admission", None)
        if offer is None:
            return None
        if args is None and self.args_model is not None:
            args = self.args_model()
        try:
            rules = offer(args)
        except Exception as error:
            raise PluginError.of(self.name, "admission", error, "admission: ") from error
        if not isinstance(rules, AdmissionRules):
            message = f"admission returned {type(rules).__name__} and no AdmissionRules"
            raise PluginError(self.name, "admission", message)
        return rules

    def make(self, args: BaseModel | None, handle: Handle) -> Plugin:
        """Construct the plugin from its arguments, with a Handle of its own if it takes one.

        Args:
            args: an instance of ``args_model``; None means the defaults.
            handle: the Handle from which the plugin's own Handle is made.

        Raises: KubextendError: the constructor does not take what kubextend gives it. What the
        constructor raises is raised unchanged.
        """
        positional: list[BaseModel] = []
        if self.args_model is not None:
            positional.append(args if args is not None else self.args_model())
        own = handle.of(self.name, needs_pods=self.needs_pods, informers=self.informers)
        named = {"handle": own} if self._takes_handle else {}
        self._check_constructor(positional, named)
        plugin: Plugin = self.plugin_class(*positional, **named)
        return plugin

    def _check_constructor(self, positional: Sequence[object], named: Mapping[str, object]) -> None:
        """Check that the constructor takes the plugin's Args, and needs no more than these.

        Raises: KubextendError: it does not; the message says what to write.
        """
        signature = inspect.signature(self.plugin_class)
        try:
            signature.bind(*positional, **named)
        except TypeError as error:
            if positional:
                advice = "the class has Args: write def __init__(self, args)"
            else:
                advice = (
                    "kubextend passes args only to a class with Args: write "
                    'class Args(BaseModel, extra="forbid") into the class, or give the parameter '
                    "a default"
                )
            message = f"kubextend cannot call __init__{signature}: {error}; {advice}"
            raise KubextendError(message) from error

    @property
    def _takes_handle(self) -> bool:
        return "handle" in inspect.signature(self.plugin_class).parameters
