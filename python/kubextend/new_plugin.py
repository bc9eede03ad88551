"""Generates a Python package with a new plugin, its test and its configuration."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import Final, Literal, Self

from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.config.schema import json_schema
from kubextend.errors import KubextendError
from kubextend.plugins import IN_TREE

__all__ = ["NewPlugin", "NewPluginError"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")
_TEMPLATES: Final = "new_plugin_templates"
_PINNED: Final = """\
# Where kubextend was installed from: anybody may register its bare name in an index of packages.
"""
_NOT_PINNED: Final = """\
# kubextend is not here: it does not know where it was installed from, and anybody may register its
# bare name in an index of packages. Add it as `kubextend @ URL`, or install it first.
"""


class NewPluginError(KubextendError):
    """The name of a new plugin cannot be used, or its package cannot be written."""


@dataclass(frozen=True, slots=True)
class NewPlugin:
    """The name and extension point of a new plugin, from which its package is generated.

    Attributes:
        name: the name of the class, and of the plugin in a configuration.
        point: the extension point of the plugin.
    """

    name: str
    point: Literal["filter", "score"]

    @classmethod
    def named(cls, name: str, point: Literal["filter", "score"]) -> Self:
        """Return a new plugin with a name in camel case, such as ZoneSpread for ``zone-spread``.

        Raises: NewPluginError: the text is no valid name, or is the name of a plugin or of an
            installed package that exists.
        """
        if _NAME.fullmatch(name) is None:
            message = f"{name} is no name for a plugin: use letters and digits, as in ZoneSpread"
            raise NewPluginError(message)
        camel = "".join(part[:1].upper() + part[1:] for part in re.split(r"[-_]", name))
        if camel in IN_TREE_PLUGINS or camel in IN_TREE:
            owner = "kubextend" if camel in IN_TREE else "kube-scheduler"
            message = f"{camel} is a plugin of {owner}: take another name"
            raise NewPluginError(message)
        package = cls(camel, point)
        if any(metadata.distributions(name=package.distribution)):
            message = (
                f"the package {package.distribution} is installed already, and pip would replace "
                "it: take another name"
            )
            raise NewPluginError(message)
        return package

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the plugin's name in lower case: ``("zone", "spread")`` for ZoneSpread."""
        return tuple(word.lower() for word in _WORD.findall(self.name))

    @property
    def distribution(self) -> str:
        """The name of the package for pip, such as ``zone-spread``."""
        return "-".join(self.words)

    @property
    def module(self) -> str:
        """The name of the package's Python module, such as ``zone_spread``.

        A name of one word gets ``_plugin`` at its end, so that the module's name is no keyword.
        """
        return "_".join(self.words) if len(self.words) > 1 else f"{self.words[0]}_plugin"

    def files(self) -> Mapping[Path, str]:
        """Return relative path -> text of every file of the new plugin's package."""
        return {
            Path("pyproject.toml"): self._filled("pyproject.toml"),
            Path("README.md"): self._filled("README.md"),
            Path("kubextend.yaml"): self._filled("kubextend.yaml"),
            Path("kubextend.schema.json"): json.dumps(json_schema(IN_TREE), indent=2) + "\n",
            Path("src", self.module, "__init__.py"): self._filled(f"{self.point}.py"),
            Path("src", self.module, "py.typed"): "",
            Path("tests", f"test_{self.module}.py"): self._filled(f"test_{self.point}.py"),
        }

    def write(self, folder: Path) -> Iterator[Path]:
        """Write the new plugin's package into a folder, and yield the path of each written file.

        Raises: NewPluginError: the folder is not empty, or cannot be written to.
        """
        try:
            if folder.exists() and any(folder.iterdir()):
                message = f"{folder} is not empty: give another --directory"
                raise NewPluginError(message)
            for path, text in self.files().items():
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
                yield file
        except OSError as error:
            message = f"{folder}: cannot be written: {error.strerror or type(error).__name__}"
            raise NewPluginError(message) from error

    def _filled(self, template: str) -> str:
        kubextend = _requirement()
        file = resources.files("kubextend").joinpath(_TEMPLATES, f"{template}.txt")
        return Template(file.read_text(encoding="utf-8")).substitute(
            name=self.name,
            distribution=self.distribution,
            module=self.module,
            point=self.point,
            why=_PINNED if kubextend else _NOT_PINNED,
            dependencies=json.dumps([*([kubextend] if kubextend else []), "pydantic>=2"]),
        )


def _requirement() -> str | None:
    """Return where this kubextend was installed from, as a requirement; None if nobody knows.

    Source: https://packaging.python.org/en/latest/specifications/direct-url/
    """
    text = metadata.distribution("kubextend").read_text("direct_url.json")
    if text is None:
        return None
    origin = json.loads(text)
    url, digest = origin["url"], origin.get("archive_info", {}).get("hash")
    if repository := origin.get("vcs_info"):
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    return f"kubextend @ {url}#{digest}" if digest else f"kubextend @ {url}"
