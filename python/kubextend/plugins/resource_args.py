"""The arguments that are common to the plugins that weigh resources of nodes."""

from typing import Annotated

from pydantic import AfterValidator, Field

from kubextend.framework.args_model import ArgsModel

__all__ = ["Resource", "ResourceSpec", "Resources", "pairs"]

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_PREFIXES = ("hugepages-", "attachable-volumes-")


def _is_counted(resource: str) -> str:
    counted = resource in _NATIVE or resource.startswith(_PREFIXES) or "/" in resource
    if not counted:
        message = (
            f"kube-scheduler counts no resource {resource!r} on nodes: name cpu, memory, "
            "ephemeral-storage, a device such as nvidia.com/gpu, or hugepages-2Mi"
        )
        raise ValueError(message)
    return resource


Resource = Annotated[str, AfterValidator(_is_counted)]


class ResourceSpec(ArgsModel):
    """A resource, and how much it counts beside other resources.

    Attributes:
        name: the name of the resource, such as ``cpu`` or ``nvidia.com/gpu``.
        weight: the weight of the resource.
    """

    name: Resource
    weight: int = Field(default=1, gt=0, lt=2**62)


def _differ(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    names = [resource.name for resource in resources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"names {', '.join(twice)} more than once"
        raise ValueError(message)
    return resources


Resources = Annotated[
    tuple[ResourceSpec, ...], Field(min_length=1, max_length=100), AfterValidator(_differ)
]


def pairs(resources: Resources) -> list[tuple[str, int]]:
    """Return the name and the weight of each resource."""
    return [(resource.name, resource.weight) for resource in resources]
