"""A plugin in a process of its own, which can be ended where a thread cannot.

A call that hangs in C code and keeps the interpreter's lock would stop all of kubextend. Here it
stops one child process: the verb that waits for it is given up like any other, and that kills the
child. Another is started, and knows all nodes again with its first call.

``plugin`` stands in the profile for the plugin, ``keeper`` has a child running and lets one call at
a time through, ``process`` is that child seen from here and ``child`` from within; ``channel`` and
``messages`` are between the two.
"""

from kubextend.profile.isolation.plugin import IsolatedPlugin

__all__ = ["IsolatedPlugin"]
