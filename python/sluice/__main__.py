"""`python -m sluice`: the program, where this build has it."""

import os
import pathlib
import sys


def main() -> None:
    # In the package of a wheel, or where CMake builds programs.
    package = pathlib.Path(__file__).parent
    places = [package / "bin" / "sluice", package.parent.parent / "bin" / "sluice"]
    for program in places:
        if program.is_file():
            os.execv(program, ["sluice", *sys.argv[1:]])
    sys.exit(
        "[sluice] this build has the Python package alone; the program is built by "
        "`cmake --preset release && cmake --build --preset release` (see README.md)"
    )


if __name__ == "__main__":
    main()
