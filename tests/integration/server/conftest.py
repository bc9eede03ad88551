from collections.abc import Iterator

import pytest
from live_server import request, serving, some_verbs

from kubextend.verbs import Verbs


@pytest.fixture(scope="module")
def verbs() -> Verbs:
    """Verbs whose request store knows the nodes ``good`` and ``plain``."""
    verbs = some_verbs()
    verbs.filter(request("filter"))
    return verbs


@pytest.fixture(scope="module")
def url(verbs: Verbs) -> Iterator[str]:
    """A server of these verbs."""
    with serving(verbs) as url:
        yield url
