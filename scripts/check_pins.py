"""Compares the pinned versions with each other and with what is installed.

Run it with the project's own interpreter, from anywhere. Exits with code 1 and one line per
difference if a package is installed at another version than in requirements/constraints.txt, is
missing there, or has another version in another file of requirements/.
"""

import sys
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
UNPINNED = {"arlarena-bench", "pip"}


def read_pins(path: Path) -> dict[str, Version]:
    """Reads a file of ``name==version`` lines.

    Args:
        path: The file; comments, empty lines and environment markers are allowed.

    Returns:
        The version by canonical package name.

    Raises:
        ValueError: A line is not an exact pin, or names a package twice.
    """
    pins: dict[str, Version] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        requirement = Requirement(line)
        (specifier,) = requirement.specifier or (None,)
        name = canonicalize_name(requirement.name)
        if specifier is None or specifier.operator != "==" or name in pins:
            raise ValueError(f"{path.name}:{number}: not one exact pin: {line}")
        pins[name] = Version(specifier.version)
    return pins


def differences() -> list[str]:
    """Lists everything that contradicts requirements/constraints.txt, one line each."""
    pins = read_pins(REQUIREMENTS / "constraints.txt")
    found = [
        f"{path.name}: {name}=={version}, constraints.txt: {pins.get(name, 'no pin')}"
        for path in sorted(REQUIREMENTS.glob("*.txt"))
        for name, version in read_pins(path).items()
        if pins.get(name) != version
    ]
    for distribution in distributions():
        name = canonicalize_name(distribution.metadata["Name"])
        # A local version ("2.13.0+cpu") is another build of the pinned release.
        installed = Version(Version(distribution.version).public)
        if name not in UNPINNED and pins.get(name) != installed:
            found.append(f"installed: {name}=={installed}, pin: {pins.get(name, 'none')}")
    return sorted(found)


def main() -> int:
    """Prints the differences.

    Returns:
        The exit code: 0 when there are none, else 1.
    """
    found = differences()
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
