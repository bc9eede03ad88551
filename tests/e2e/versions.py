"""Names the Kubernetes versions of the e2e tests, and what not all of these versions serve."""

import os
import sys
from pathlib import Path

import pytest

MODULES = Path(__file__).with_name("tools")
# The folders of the Go modules, of which the newest comes last.
VERSIONS = sorted(folder.name for folder in MODULES.glob("1.*"))
KUBE = os.environ.get("KUBE") or VERSIONS[-1]
if KUBE not in VERSIONS:
    sys.exit(f"KUBE={KUBE}: the e2e tests know no such version; they know {', '.join(VERSIONS)}")

# Kinds that not every version serves, with the first version that serves them.
SERVED_SINCE = {
    "MutatingAdmissionPolicy": "1.36",
    "MutatingAdmissionPolicyBinding": "1.36",
    # As v1beta1, where a feature gate is on; 1.36 had the kind as v1alpha2 only.
    "PodGroup": "1.37",
}


def is_served(kind: str) -> bool:
    """Return whether the version under test serves a kind, some kinds behind a feature gate."""
    return SERVED_SINCE.get(kind, KUBE) <= KUBE


def needs(kind: str) -> pytest.MarkDecorator:
    """Return the mark that skips a test where the version under test does not serve the kind."""
    why = f"Kubernetes serves {kind} since {SERVED_SINCE.get(kind)}"
    return pytest.mark.skipif(not is_served(kind), reason=why)


def lacks(kind: str) -> pytest.MarkDecorator:
    """Return the mark that skips a test where the version under test serves the kind."""
    return pytest.mark.skipif(is_served(kind), reason=f"this version serves {kind}")
