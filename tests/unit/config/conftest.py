from collections.abc import Mapping
from typing import Any

import pytest
from config_world import KNOWN, Parse, Refusal

from kubextend import config
from kubextend.errors import ConfigError, Issue


@pytest.fixture
def parse() -> Parse:
    return lambda tree: config.parse(tree, known=KNOWN)


@pytest.fixture
def refusal() -> Refusal:
    def issues(tree: Mapping[str, Any]) -> tuple[Issue, ...]:
        with pytest.raises(ConfigError) as caught:
            config.parse(tree, known=KNOWN)
        return caught.value.issues

    return issues
