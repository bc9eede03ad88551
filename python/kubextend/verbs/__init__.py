"""The extender's verbs: each verb turns the bytes of a request into the bytes of its answer.

The Rust core reads a request, a profile's plugins decide, and the core writes the answer. No module
of this package may know HTTP.
"""

from kubextend.verbs.verbs import Verb, Verbs

__all__ = ["Verb", "Verbs"]
