from pathlib import Path

import pytest
import yaml
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
    loaded = config.load(EXAMPLES / example / "kubextend.yaml", known=IN_TREE)
    [profile] = loaded.resolved
    args = profile.args[plugin]
    assert args is not None
    world = World()
    made = IN_TREE[plugin].make(args, world.handle)
    label = args.model_dump()["node_label"]
    world.says(numbers(values).replace(b'"instance"', f'"{label}"'.encode()))
    assert scores_of(made, list(scores)) == scores


@pytest.mark.parametrize("example", ["network-traffic", "prometheus-score", "target-load-packing"])
def test_every_argument_is_in_the_tables(example: str) -> None:
    tables = "".join(
        line
        for folder in {example, "network-traffic"}
        for line in (EXAMPLES / folder / "README.md").read_text().splitlines()
        if line.startswith("| `")
    )
    document = yaml.safe_load((EXAMPLES / example / "kubextend.yaml").read_text())
    [entry] = document["profiles"][0]["pluginConfig"]
    model = IN_TREE[entry["name"]].args_model
    assert model is not None
    for name, field in model.model_fields.items():
        assert f"| `{field.alias or name}" in tables
