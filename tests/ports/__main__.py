"""Records what the Go originals of the ported plugins decide about the generated cases.

Needs the program of tests/go/ports as its only argument; writes tests/data/ports.
"""

import subprocess
import sys

from tests.ports.cases import PORTS, cluster_for, clusters, questions
from tests.ports.recorded import asked, line, write


def main(program: str) -> None:
    """Ask the program every question, and write the answers of each plugin into a file."""
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
    main(sys.argv[1])
