from collections.abc import Iterator

import pytest
from live_server import request as body_of
from live_server import serving, some_verbs

from kubextend.verbs import Verbs


@pytest.fixture(scope="module", params=[False, True], ids=["", "shortcut"])
def verbs(request: pytest.FixtureRequest) -> Verbs:
    """Verbs whose request store knows the nodes ``good`` and ``plain``."""
    verbs = some_verbs(brief=request.param)
    verbs.filter(body_of("filter"))
    return verbs


@pytest.fixture(scope="module")
def url(verbs: Verbs) -> Iterator[str]:
    """A server of these verbs."""
    with serving(verbs) as url:
        yield url
