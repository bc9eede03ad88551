from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.doors import kube_api

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def clock() -> Iterator[kube_api.SkippingTime]:
    with kube_api.skipping() as made:
        yield made


@pytest.fixture
def api(clock: kube_api.SkippingTime) -> Iterator[kube_api.ScriptedApi]:
    del clock
    with kube_api.scripted() as made:
        yield made


@pytest.fixture
def kubeconfig(api: kube_api.ScriptedApi, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    kube_api.write_kubeconfig(file, api.url, "a-token")
    return file
