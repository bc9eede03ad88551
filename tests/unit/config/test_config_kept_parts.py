"""Which optional parts of pods and nodes kubextend keeps for the plugins of a configuration."""

import pytest
from config_world import document

from kubextend import config
from kubextend.framework.registered_plugin import RegisteredPlugin


class Plain:
    name = "Plain"

    def filter_nodes(self) -> None: ...


class Details(Plain):
    name = "Details"
    needs_details = True


class Raw(Plain):
    name = "Raw"
    needs_raw = True


KNOWN = {kind.name: RegisteredPlugin(kind.name, kind) for kind in (Plain, Details, Raw)}


@pytest.mark.parametrize(
    ("profiles", "details", "raw"),
    [
        ([["Plain"]], False, False),
        ([["Plain", "Details"]], True, False),
        ([["Raw"]], False, True),
        ([["Plain"], ["Raw"], ["Details"]], True, True),
    ],
)
def test_kubextend_keeps_what_a_plugin_of_any_profile_needs(
    profiles: list[list[str]], details: bool, raw: bool
) -> None:
    tree = document(
        profiles=[
            {
                "schedulerName": f"scheduler-{at}",
                "plugins": {"filter": {"enabled": [{"name": name} for name in names]}},
            }
            for at, names in enumerate(profiles)
        ]
    )
    loaded = config.parse(tree, known=KNOWN)
    assert loaded.kept_parts == {"details": details, "raw": raw}
