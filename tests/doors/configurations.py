"""What every configuration of kubextend begins with, and the kubeconfigs that it names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

HEAD: Final[dict[str, Any]] = {
    "apiVersion": "kubextend.dev/v1alpha1",
    "kind": "ExtenderConfiguration",
}


def write_kubeconfig(
    file: Path, server: str, user: str | Mapping[str, Any] | None, **more: Any
) -> Path:
    """Write the kubeconfig of a user ``me`` in the context ``there``, and return its path.

    Args:
        file: the file.
        server: the URL of the API.
        user: the user's token or other credentials; None: the context has no user.
        more: further fields of the cluster as ``cluster``, and other values of the document.
    """
    fields = {"token": user} if isinstance(user, str) else user
    context = {"cluster": "there"} | ({} if fields is None else {"user": "me"})
    cluster = {"server": server, **more.pop("cluster", {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "there",
        "contexts": [{"name": "there", "context": context}],
        "clusters": [{"name": "there", "cluster": cluster}],
        "users": [] if fields is None else [{"name": "me", "user": fields}],
    }
    file.write_text(yaml.safe_dump(document | more))
    return file
