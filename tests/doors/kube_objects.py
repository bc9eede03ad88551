"""The part of the door of the Kubernetes API that is about informers: what they keep of objects."""

from __future__ import annotations

from kubextend.cluster import objects
from kubextend.framework.informer import (
    MAX_OBJECT_BYTES,
    Informer,
    KubeObject,
    Resource,
    UnwatchedInformer,
)

__all__ = ["MAX_OBJECT_BYTES", "KubeObject", "Objects", "kept", "path_of", "unwatched"]

Objects = objects.ObjectStore


def kept() -> Objects:
    """Return what an informer keeps of the resource ``claims``: nothing yet."""
    # Another test may have had the one line of this second.
    objects.large.filters.clear()
    return Objects("claims")


def path_of(name: str) -> tuple[str, str]:
    """Return the API path of a resource as plugins name it, and the name that messages have.

    Raises: Exception: the name is that of no resource.
    """
    resource = Resource.of(name)
    return resource.path, str(resource)


def unwatched(name: str) -> Informer:
    """Return the informer of a resource where no Kubernetes API is configured."""
    return UnwatchedInformer(Resource.of(name))
