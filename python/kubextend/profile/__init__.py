"""Runs the plugins of a profile at each extension point, with time limits and breakers."""

from kubextend.framework.plugin import Scores
from kubextend.profile.binding_cycle import BindingCycle, BindingPlugins, BindTime
from kubextend.profile.profile import FilterOutcome, PluginScores, Profile, Profiles
from kubextend.profile.starts import PluginStarts
from kubextend.profile.time_limited_calls import PluginLimits
from kubextend.profile.waiting_pods import WaitingPod, WaitingPods

__all__ = [
    "BindTime",
    "BindingCycle",
    "BindingPlugins",
    "FilterOutcome",
    "PluginLimits",
    "PluginScores",
    "PluginStarts",
    "Profile",
    "Profiles",
    "Scores",
    "WaitingPod",
    "WaitingPods",
]
