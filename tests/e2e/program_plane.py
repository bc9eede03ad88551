"""Starts control planes, for tests and for programs that run outside of pytest."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .controlplane import ControlPlane, build_binaries
from .manifests import grant_kubextend
from .workbench import Workbench, say
from .workload import create_priority_classes

__all__ = ["plane_in", "program_plane"]


@contextmanager
def plane_in(folder: Path, gates: str = "", apis: str = "") -> Iterator[ControlPlane]:
    """Start a control plane with the rights of kubextend and the priority classes; end it after."""
    with (
        Workbench(folder) as bench,
        closing(ControlPlane(bench, build_binaries(), gates, apis)) as plane,
    ):
        create_priority_classes(plane.api)
        grant_kubextend(plane.api, "kubextend")
        yield plane


@contextmanager
def program_plane(gates: str = "", apis: str = "") -> Iterator[ControlPlane]:
    """Start the control plane of a program: ``plane_in`` a folder that goes.

    If the block raises, the end of the log of each program but etcd is printed.
    """
    with tempfile.TemporaryDirectory() as folder, plane_in(Path(folder), gates, apis) as plane:
        try:
            yield plane
        except BaseException:
            for program in plane.bench.programs[1:]:
                say(f"--- {program.name}\n{program.tail()}")
            raise
