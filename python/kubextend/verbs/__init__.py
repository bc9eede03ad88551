"""The extender's verbs: bytes of a request in, bytes of its answer out.

Arguments are read by the core, a profile decides, the core writes. Must know nothing of HTTP.
"""

from kubextend.verbs.verbs import Verbs

__all__ = ["Verbs"]
