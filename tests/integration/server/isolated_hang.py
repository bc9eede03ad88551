"""A filter plugin that never returns, for an isolated plugin process of the server."""

import ctypes
import time
from collections.abc import Sequence

from kubextend import core
from kubextend.framework.plugin import Rejection

LONG_S = 60


class HangsInC:
    """Hangs in filter in the way that the pod's label ``then`` names: gil, sleep or spin."""

    name = "HangsInC"

    def filter_nodes(self, _state: object, of: core.Pod, _nodes: core.Nodes) -> Sequence[Rejection]:
        match of.labels.get("then"):
            case "gil":
                # C code that holds the interpreter's lock while it sleeps.
                ctypes.PyDLL(None).sleep(LONG_S)
            case "sleep":
                time.sleep(LONG_S)
            case "spin":
                while True:
                    pass
        return []
