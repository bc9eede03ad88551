"""``--hypothesis-profile=nightly`` tries a thousand times as many examples."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "nightly", max_examples=100_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
