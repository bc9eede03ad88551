"""Runs a plugin in a child process (``isolation: process``), which can be killed if a call hangs.

A call that hangs in C code and keeps the interpreter's lock would stop all of kubextend. In a child
process such a call stops the child only: when the verb's time is up, kubextend kills the child and
starts another. The first call of a new child sends all nodes again.

``isolated_plugin`` takes the plugin's place in the profile. ``supervisor`` keeps a child running
and admits one call at a time. ``process`` starts a child and sends it messages, ``child`` is the
child's main program, ``child_spec`` describes the plugin to make. ``channel`` and ``protocol``
carry the messages between parent and child.
"""

from kubextend.profile.isolation.isolated_plugin import IsolatedPlugin

__all__ = ["IsolatedPlugin"]
