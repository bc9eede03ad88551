"""The extender's verbs: each turns the bytes of a request into the bytes of its answer.

The core reads the arguments, a profile decides, the core writes the answer. No module here may know
HTTP.
"""

from kubextend.verbs.context import Context, ExtenderSettings
from kubextend.verbs.memory import Memory
from kubextend.verbs.verbs import Verbs

__all__ = ["Context", "ExtenderSettings", "Memory", "Verbs"]
