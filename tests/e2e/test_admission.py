"""Rules that ``kubextend admission`` compiled, on a real kube-apiserver: put on pods, and kept."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .admission_rules import LAST_PROFILE, bare_pod, configuration, installed, made, profile
from .affinity_model import Object, Rule, random_affinity, sorted_rules, with_rules, without_empty
from .controlplane import ControlPlane
from .kubeapi import Api
from .versions import needs

pytestmark = needs("MutatingAdmissionPolicy")

SCHEDULER = "admission-rules"
CASES = 500


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator} | ({"values": [*values]} if values else {})


def preference(weight: int, *expressions: Object) -> Object:
    return {"weight": weight, "preference": {"matchExpressions": [*expressions]}}


# Each rule twice: as the configuration says it, and as the model knows it.
FILTERS = [
    {"podSelector": "job=train", "nodeSelector": "zone in (b, a), !spot"},
    {"podSelector": "job=train", "nodeSelector": "example.com/gpus>7"},
    {"podSelector": "team", "nodeSelector": "disk!=slow"},
    {"podSelector": "team", "nodeSelector": "zone in (b, a)"},
]
SCORES = [
    {"podSelector": "job=train", "nodeSelector": "disk=a", "score": 40},
    {"podSelector": "job=serve", "nodeSelector": "!spot, zone", "score": 20},
    {"podSelector": "team", "nodeSelector": "disk=a", "score": 40},
]
IN_ZONE = expression("zone", "In", "a", "b")
ON_A_DISK = expression("disk", "In", "a")
RULES = [
    Rule(
        {"job": "train"},
        [
            expression("spot", "DoesNotExist"),
            IN_ZONE,
            expression("example.com/gpus", "Gt", "7"),
        ],
        [preference(40, ON_A_DISK)],
    ),
    Rule(
        {"team": "red"},
        [expression("disk", "NotIn", "slow"), IN_ZONE],
        # The points of both rules count, so it must not be taken for the other.
        [preference(40, ON_A_DISK, ON_A_DISK)],
    ),
    Rule(
        {"job": "serve"},
        [],
        [preference(20, expression("spot", "DoesNotExist"), expression("zone", "Exists"))],
    ),
]
KNOWN = [need for rule in RULES for need in rule.needs]
LABELS = [
    {},
    {"job": "train"},
    {"job": "serve"},
    {"job": "other"},
    {"team": "red"},
    {"team": "red", "job": "train"},
    {"team": "red", "job": "serve"},
]


@pytest.fixture(scope="module")
def rules(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    file = tmp_path_factory.mktemp("rules") / "kubextend.yaml"
    profiles = [profile(SCHEDULER, FILTERS, SCORES), LAST_PROFILE]
    with installed(control_plane, configuration(file, profiles)):
        yield


def cases() -> list[tuple[Object, Object | None]]:
    """The labels and the affinity of each pod, the same in every run."""
    chance = random.Random(17)
    return [(chance.choice(LABELS), random_affinity(chance, KNOWN)) for _ in range(CASES)]


@pytest.mark.usefixtures("rules")
def test_a_pods_own_affinity_is_kept_and_the_rules_are_in_every_term_once(api: Api) -> None:
    pods = [
        bare_pod(SCHEDULER, labels, **({} if affinity is None else {"affinity": affinity}))
        for labels, affinity in cases()
    ]
    shown = api.create_all("/api/v1/namespaces/default/pods?dryRun=All", pods)
    for (labels, affinity), pod in zip(cases(), shown, strict=True):
        expected = sorted_rules(with_rules(affinity, RULES, labels), affinity)
        found = sorted_rules(without_empty(pod["spec"].get("affinity")), affinity)
        assert found == expected, (labels, affinity)
