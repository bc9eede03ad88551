import itertools
from collections.abc import Iterator

import pytest
from live_server import request as body_of
from live_server import serving, some_verbs

from kubextend.profile.time_limited_calls import PluginLimits
from kubextend.verbs import Verbs


@pytest.fixture(scope="module", params=[False, True], ids=["in a thread", "on the loop"])
def verbs(request: pytest.FixtureRequest) -> Verbs:
    """Verbs whose request store knows the nodes ``good`` and ``plain``.

    The clock of the breakers makes any two failures 100 s apart, so that no breaker stays open.
    """
    limits = PluginLimits(clock=itertools.count(0.0, 100.0).__next__)
    verbs = some_verbs(brief=request.param, limits=limits)
    verbs.filter(body_of("filter"))
    return verbs


@pytest.fixture(scope="module")
def url(verbs: Verbs) -> Iterator[str]:
    """Serve the verbs of the ``verbs`` fixture, and return the URL."""
    with serving(verbs) as url:
        yield url
