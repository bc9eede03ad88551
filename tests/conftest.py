"""How long an example takes is nobody's business: another process may have the processor.

``--hypothesis-profile=nightly`` tries a thousand times as many examples.
"""

from hypothesis import HealthCheck, settings

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("untimed", UNTIMED)
settings.register_profile("nightly", UNTIMED, max_examples=100_000)
settings.load_profile("untimed")
