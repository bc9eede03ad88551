"""Writes the bills of materials of the image, and says whether they name every locked dependency.

``python -m tests.sbom FOLDER CYCLONEDX`` has cargo-cyclonedx, which it builds once, write
rust.cdx.json into the folder, and the program CYCLONEDX write python.cdx.json. The crates are those
of Cargo.lock that cargo builds the native module of on any system, by ``cargo tree``. The Python
packages are those of requirements.lock that kubextend needs to run on this system, by the lock's
comments about who needs what.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
CARGO_CYCLONEDX = "cargo-cyclonedx@0.5.9"
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)
_VIA = re.compile(r"^    # (?:via|  ) *(\S.*)$", re.MULTILINE)
Package = tuple[str, str]


def main() -> None:
    folder, cyclonedx = Path(sys.argv[1]).resolve(), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    write_rust(folder / "rust.cdx.json")
    write_python(folder, cyclonedx)
    for name, locked in (("rust", crates()), ("python", packages(LOCK.read_text()))):
        named = components(folder / f"{name}.cdx.json")
        if missing := locked - named:
            sys.exit(f"{name}.cdx.json does not name {sorted(missing)}")
        if more := named - locked:
            sys.exit(f"{name}.cdx.json names what is not in the image: {sorted(more)}")
        sys.stdout.write(f"{name}.cdx.json names {len(named)} dependencies\n")


def write_rust(file: Path) -> None:
    """Write the crates of the native module on any system into a CycloneDX file."""
    if shutil.which("cargo-cyclonedx") is None:
        _run("cargo", "install", "--quiet", "--locked", CARGO_CYCLONEDX)
    options = ("--format=json", "--target=all", "--override-filename=kubextend.cdx")
    _run("cargo", "cyclonedx", "--quiet", "--manifest-path=rust/python/Cargo.toml", *options)
    (ROOT / "rust/python/kubextend.cdx.json").rename(file)
    for more in ROOT.glob("rust/*/kubextend.cdx.json"):
        more.unlink()


def write_python(folder: Path, cyclonedx: str) -> None:
    """Write the Python packages that kubextend needs on this system into a CycloneDX file."""
    uv, venv = str(Path(sys.executable).with_name("uv")), folder / "venv"
    _run(uv, "venv", "--quiet", "--clear", f"--python={sys.executable}", venv)
    locked = ("--require-hashes", f"--constraint={LOCK}")
    _run(uv, "pip", "install", "--quiet", f"--python={venv}", *locked, "-r", "pyproject.toml")
    out = f"--output-file={folder / 'python.cdx.json'}"
    _run(cyclonedx, "environment", venv, "--pyproject=pyproject.toml", "--output-reproducible", out)


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def components(file: Path) -> set[Package]:
    """Return name and version of every component of a CycloneDX file."""
    found = json.loads(file.read_text())["components"]
    assert all(each["purl"] for each in found), file
    return {(canonicalize_name(each["name"]), each["version"]) for each in found}


def crates() -> set[Package]:
    """Return each crate that is built into the module, or that builds a part of it."""
    command = ["cargo", "tree", "--locked", "--package=kubextend-python", "--prefix=none"]
    command += ["--edges=normal,build", "--target=all", "--format={p}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = {line.removesuffix(" (*)") for line in done.stdout.splitlines()}
    found = [line.split()[:2] for line in lines if not line.startswith("kubextend-python ")]
    return {(canonicalize_name(name), version.removeprefix("v")) for name, version in found}


def packages(lock: str) -> set[Package]:
    """Return each package of a lock that kubextend needs on this system to run."""
    needed_by: dict[str, set[str]] = {}
    locked: dict[str, str] = {}
    for entry in _ENTRY.split(lock):
        if not entry or entry.startswith("#"):
            continue
        pin = Requirement(entry.split("\\")[0])
        if pin.marker is None or pin.marker.evaluate():
            (version,) = (each.version for each in pin.specifier)
            locked[pin.name] = version
            needed_by[pin.name] = set(_VIA.findall(entry))
    needed = {"kubextend (pyproject.toml)"}
    while more := {name for name, by in needed_by.items() if by & needed and name not in needed}:
        needed |= more
    return {(canonicalize_name(name), locked[name]) for name in needed & locked.keys()}


if __name__ == "__main__":
    main()
