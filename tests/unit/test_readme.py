"""Every example of the README and of the pages runs; the reference of fields is complete."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

from kubextend import cli, config
from kubextend.config import model
from kubextend.plugins import IN_TREE

ROOT = Path(__file__).resolve().parents[2]
# The examples of these pages run from the root of the repository.
PAGES = ("README.md", "docs/library.md", "docs/http.md", "docs/operating.md", "docs/plugins.md")
MOST_WORDS = 1800


def blocks(language: str, *pages: str) -> list[str]:
    """The code blocks of these pages that say that they are in this language."""
    return [
        block
        for page in pages or PAGES
        for block in re.findall(
            rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
        )
    ]


def commands() -> list[tuple[str, str]]:
    """Each command of the console blocks, and what the page says that it prints."""
    return [
        (line, printed)
        for block in blocks("console")
        for line, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def reference() -> dict[str, object]:
    (text,) = blocks("yaml", "docs/configuration.md")
    tree = yaml.safe_load(text)
    assert isinstance(tree, dict)
    return tree


@pytest.mark.parametrize("code", blocks("python"))
def test_a_python_example_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "page.md", "exec"), {})


@pytest.mark.parametrize(("line", "printed"), commands())
def test_a_command_prints_what_the_page_says(
    line: str, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, _, written = line.partition(" > ")
    program, *arguments = shlex.split(command)
    result = CliRunner().invoke(cli.main, arguments)
    assert program == "kubextend"
    assert result.exit_code == 0, result.output
    if written:
        assert yaml.safe_load(result.stdout)["kind"] == "KubeSchedulerConfiguration"
    else:
        assert result.stdout == printed


def test_there_are_examples_of_every_kind() -> None:
    assert len(blocks("python", "README.md")) == 1
    assert len(blocks("python", "docs/library.md")) == 3
    assert {line.split()[1] for line, _ in commands()} == {
        "filter",
        "prioritize",
        "check",
        "scheduler-config",
    }


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= MOST_WORDS


def fields(section: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in section.model_fields.items()}


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("", model.ExtenderConfiguration),
        ("server", model.Server),
        ("server.tls", model.ServerTLS),
        ("cluster", model.Cluster),
        ("extender", model.Extender),
        ("extender.tlsConfig", model.ExtenderTLSConfig),
        ("queue", model.Queue),
        ("queue.lease", model.QueueLease),
        ("profiles.0", model.SchedulerProfile),
        ("profiles.0.plugins.filter", model.PluginSet),
    ],
)
def test_the_reference_has_every_field_of_the_configuration(
    path: str, section: type[BaseModel]
) -> None:
    found: object = reference()
    for part in filter(None, path.split(".")):
        found = found[int(part)] if isinstance(found, list) else found[part]  # type: ignore[index]
    assert isinstance(found, dict)
    assert set(found) == fields(section)


def test_the_reference_has_the_defaults() -> None:
    written = config.parse(reference(), known=IN_TREE)  # type: ignore[arg-type]
    assert written.server == model.Server()
    assert written.cluster == model.Cluster()
    assert written.queue == model.Queue()
    assert written.score_scale == model.ExtenderConfiguration().score_scale
    assert written.extender == model.Extender.model_validate({"nodeCacheCapable": True})
    assert written.profiles == config.load(None, known=IN_TREE).profiles
