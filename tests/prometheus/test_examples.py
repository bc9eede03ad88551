from pathlib import Path

import pytest
from tests.doors.prometheus import World, numbers, scores_of

from kubextend import config
from kubextend.plugins import IN_TREE

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"


@pytest.mark.parametrize(
    ("example", "plugin", "values", "scores"),
    [
        ("network-traffic", "NetworkTraffic", {"a": 100, "b": 400}, {"a": 75, "b": 0, "c": 50}),
        ("prometheus-score", "PrometheusScore", {"a": 100, "b": 400}, {"a": 0, "b": 100, "c": 0}),
        ("target-load-packing", "TargetLoadPacking", {"a": 40, "b": 70}, {"a": 100, "b": 20}),
    ],
)
def test_an_example_loads_and_scores_as_its_readme_says(
    example: str, plugin: str, values: dict[str, int], scores: dict[str, int]
) -> None:
    [profile] = config.load(EXAMPLES / example / "kubextend.yaml", known=IN_TREE).profiles
    args = profile.args[plugin]
    world = World()
    made = IN_TREE[plugin].make(args, world.handle)
    label = args.model_dump()["node_label"]
    world.says(numbers(values).replace(b'"instance"', f'"{label}"'.encode()))
    assert scores_of(made, list(scores)) == scores


@pytest.mark.parametrize(
    "example", ["measured-load", "network-traffic", "prometheus-score", "target-load-packing"]
)
def test_every_argument_is_in_the_tables_of_the_readme(example: str) -> None:
    pages = [(EXAMPLES / each / "README.md").read_text() for each in {example, "network-traffic"}]
    loaded = config.load(EXAMPLES / example / "kubextend.yaml", known=IN_TREE)
    assert loaded.profiles
    for profile in loaded.profiles:
        [args] = profile.args.values()
        for name, field in type(args).model_fields.items():
            assert f"\n| `{field.alias or name}" in "".join(pages)
