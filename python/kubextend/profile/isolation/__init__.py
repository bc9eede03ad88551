"""A plugin in a process of its own, which kubextend can end where it cannot end a thread.

A call that hangs in C code and keeps the interpreter's lock would stop all of kubextend. In a child
process the call stops the child only: the waiting verb is given up like any other, which kills the
child. A new child starts, and its first call brings all nodes again.

``isolated_plugin`` stands in the profile for the plugin. ``supervisor`` keeps a child running and
lets one call at a time through. ``process`` is the child as the parent sees it, ``child`` is the
program of the child, and ``child_spec`` says what the child has to make. ``channel`` and
``protocol`` are between the two.
"""

from kubextend.profile.isolation.isolated_plugin import IsolatedPlugin

__all__ = ["IsolatedPlugin"]
