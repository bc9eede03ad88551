"""A profile: ordered plugins per extension point, and the running of them."""

from kubextend.framework.plugin import Scores
from kubextend.profile.profile import FilterOutcome, Profile, Profiles

__all__ = ["FilterOutcome", "Profile", "Profiles", "Scores"]
