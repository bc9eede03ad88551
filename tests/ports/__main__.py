"""Records what the Go originals of the ported plugins decide about the generated cases.

``python -m tests.ports`` builds tests/go/ports, asks it, and writes tests/data/ports.
"""

import subprocess
from pathlib import Path
from typing import Final

from tests.ports.cases import PORTS, cluster_for, clusters, questions
from tests.ports.recorded import asked, line, write

ROOT: Final = Path(__file__).resolve().parents[2]


def main() -> None:
    """Ask the Go program every question, and write the answers of each plugin into a file."""
    program = ROOT / "build/go-ports"
    build = ["go", "build", "-trimpath", "-o", program, "."]
    subprocess.run(build, cwd=ROOT / "tests/go/ports", check=True)
    common = list(clusters())
    for plugin in PORTS:
        every = [cluster_for(plugin, number, cluster) for number, cluster in enumerate(common)]
        lines = []
        for number, cluster in enumerate(every):
            lines.append(line({"Cluster": cluster}))
            lines += [
                line({"Question": {"Plugin": plugin, "Args": args, "Pod": pod}})
                for args, pod in questions(plugin, number)
            ]
        said = subprocess.run(
            [program], input=b"".join(lines), stdout=subprocess.PIPE, check=True
        ).stdout
        write(plugin, said, asked(plugin, every))
        print(plugin, said.count(b"\n"))  # noqa: T201  the output of a command


if __name__ == "__main__":
    main()
