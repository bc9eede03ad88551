from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kubextend.cluster import Binder
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster


class Untouched:
    """A cluster that must not be called."""


@pytest.mark.parametrize(
    ("namespace", "name", "uid", "node", "sentence"),
    [
        ("default", "web", "", "node-1", "the request names no UID"),
        ("", "web", "u", "node-1", "no name of a namespace"),
        ("default", "", "u", "node-1", "no name of a pod"),
        ("default", "web", "u", "", "no name of a node"),
        ("..", "web", "u", "node-1", "no name of a namespace"),
        ("default", "..", "u", "node-1", "no name of a pod"),
        ("default", "../../nodes/n", "u", "node-1", "no name of a pod"),
        ("default", "web?dryRun=All", "u", "node-1", "no name of a pod"),
        ("default", "web\r\nX: y", "u", "node-1", "no name of a pod"),
        ("default", "web\n", "u", "node-1", "no name of a pod"),
        ("default", "x" * 254, "u", "node-1", "no name of a pod"),
        ("default", "Web", "u", "node-1", "no name of a pod"),
    ],
)
def test_what_is_no_name_is_never_sent(
    namespace: str, name: str, uid: str, node: str, sentence: str
) -> None:
    with pytest.raises(ClusterError, match=sentence):
        Binder(cast("Cluster", Untouched())).bind(namespace, name, uid, node)
