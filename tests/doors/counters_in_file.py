"""Writes network counters of a made-up device to a file for node_exporter, until killed.

Arguments: file, device, bytes a second.
"""

import sys
import time
from pathlib import Path


def main(file: Path, device: str, bytes_per_s: int) -> None:
    began = time.monotonic()
    while True:
        count = int((time.monotonic() - began) * bytes_per_s)
        lines = [
            line
            for direction in ("receive", "transmit")
            for name in [f"node_network_{direction}_bytes_total"]
            for line in (f"# TYPE {name} counter", f'{name}{{device="{device}"}} {count}')
        ]
        fresh = file.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(file)
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
