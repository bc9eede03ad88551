"""Runs the command ``kubextend`` as ``python -m kubextend``."""

from kubextend.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main(prog_name="kubextend")
