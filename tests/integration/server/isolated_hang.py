"""A filter that a child process of the server's can import, which never comes back."""

import ctypes
import time
from collections.abc import Sequence

from kubextend import core
from kubextend.framework.plugin import Rejection

LONG_S = 60


class HangsInC:
    """Hangs for the pods that say how."""

    name = "HangsInC"

    def filter_nodes(self, _state: object, of: core.Pod, _nodes: core.Nodes) -> Sequence[Rejection]:
        match of.labels.get("then"):
            case "gil":
                # Called with the interpreter's lock held, as much C code does that is not careful.
                ctypes.PyDLL(None).sleep(LONG_S)
            case "sleep":
                time.sleep(LONG_S)
            case "spin":
                while True:
                    pass
        return []
