"""Makes a copy of the project, with a Python environment, in which code may be broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .reader import ROOT

_EXTENSION = "python/kubextend/_native.abi3.so"
# Such a build takes a third of the time of a release build, and behaves the same.
_QUICK = {"CARGO_PROFILE_RELEASE_LTO": "false", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


class Scratch:
    """A copy of the project's working tree below ``build/``, with a Python environment.

    The interpreter imports the copy's ``kubextend`` before anything else, in every process that a
    test starts, and finds all other packages in the project's own environment.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder
        shutil.rmtree(folder, ignore_errors=True)
        list_files = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(list_files, cwd=ROOT, check=True, capture_output=True, text=True)
        for file in filter(None, listed.stdout.split("\0")):
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file, follow_symlinks=False)
        self.restore_extension()
        (folder / "build").mkdir(exist_ok=True)
        (folder / "build/e2e-tools").symlink_to(ROOT / "build/e2e-tools")
        self._make_environment()
        self.python = folder / ".venv/bin/python"

    def _make_environment(self) -> None:
        ours, theirs = self.root / ".venv", Path(sys.prefix)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", ours], check=True)
        site = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}/site-packages")
        paths = [str(self.root / "python"), *(path for path in sys.path if "site-packages" in path)]
        (ours / site / "scratch.pth").write_text("".join(f"{path}\n" for path in paths))
        for program in (theirs / "bin").iterdir():
            copy = ours / "bin" / program.name
            if copy.exists():
                continue
            head = program.read_bytes()
            if head.startswith(b"#!"):
                copy.write_bytes(head.replace(os.fsencode(theirs), os.fsencode(ours), 1))
                copy.chmod(0o755)
            else:
                copy.symlink_to(program)

    def build_extension(self) -> bool:
        """Build the Rust code of the copy. Returns whether the code compiled."""
        build = ["cargo", "build", "--locked", "--quiet", "--release"]
        build += ["--package", "kubextend-python", "--features", "pyo3/extension-module"]
        done = subprocess.run(
            build, cwd=self.root, env={**os.environ, **_QUICK}, capture_output=True, check=False
        )
        if done.returncode == 0:
            library = self.root / "target/release/libkubextend_python.so"
            shutil.copy2(library, self.root / _EXTENSION)
        return done.returncode == 0

    def restore_extension(self) -> None:
        """Put the unbroken native extension of the project's environment into the copy."""
        shutil.copy2(ROOT / _EXTENSION, self.root / _EXTENSION)
