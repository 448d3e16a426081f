"""Lists processes from /proc."""

from pathlib import Path


def parents() -> dict[int, int]:
    """Parents of all running processes."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] not in {"Z", "X"}:
            found[int(path.parent.name)] = int(fields[1])
    return found


def below(process: int) -> set[int]:
    """All descendants of a process."""
    known, found = parents(), {process}
    while more := {child for child, parent in known.items() if parent in found} - found:
        found |= more
    return found - {process}
