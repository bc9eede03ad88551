"""The crates of Cargo.lock have licences and sources that deny.toml allows.

``cargo deny`` asks cargo-deny, whose build takes 24 minutes of one core; this needs no network.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
DENY = tomllib.loads((ROOT / "deny.toml").read_text())


def is_allowed(expression: str, licences: set[str]) -> bool:
    """Whether one of the alternatives of an SPDX expression asks for allowed licences alone."""
    expression = re.sub(r"\(([^()]*)\)", lambda inner: _bracket(inner[1], licences), expression)
    alternatives = re.split(r" OR |/", expression)
    return any(
        all(part in licences | {"allowed"} for part in alternative.split(" AND "))
        for alternative in alternatives
    )


def _bracket(inner: str, licences: set[str]) -> str:
    return "allowed" if is_allowed(inner, licences) else "refused"


@pytest.fixture(scope="module")
def crates() -> list[dict[str, Any]]:
    # A build fetches the crates of its own platform alone, and these are what a wheel is made of.
    platform = DENY["graph"]["targets"][0]
    command = ["cargo", "metadata", "--locked", "--format-version=1"]
    command.append(f"--filter-platform={platform}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return packages


def test_every_crate_has_an_allowed_licence(crates: list[dict[str, Any]]) -> None:
    licences = set(DENY["licenses"]["allow"])
    assert [
        (crate["name"], crate["license"])
        for crate in crates
        if not is_allowed(crate["license"] or "none", licences)
    ] == []
    assert len(crates) > 30


def test_every_crate_is_ours_or_from_crates_io(crates: list[dict[str, Any]]) -> None:
    sources = {f"registry+{registry}" for registry in DENY["sources"]["allow-registry"]}
    assert {crate["source"] for crate in crates} == sources | {None}
