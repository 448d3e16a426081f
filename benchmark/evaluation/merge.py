"""Merges the shards of a run from separate machines."""

from collections.abc import Sequence
from pathlib import Path

from benchmark.evaluation.evaluate import Plan, PlannedPanel
from benchmark.evaluation.manifest import Manifest, differing_facts
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.replay import installed_panel
from benchmark.evaluation.run_folder import (
    MANIFEST,
    RECORDS,
    SESSIONS,
    Key,
    read_run,
    refuse_others,
)
from benchmark.files import write_atomically
from tasks.errors import UserError, os_error_as


def merge(paths: Sequence[Path], out: Path) -> Manifest:
    """Merge run folders into a new one.

    Args:
        paths: One folder per shard, in any order.
        out: The new folder; it must not contain a run or a part of one, nor be something else.

    Returns:
        The merged run's manifest.

    Raises:
        UserError: The folders are not all shards of one complete run.
    """
    if any((out / name).exists() for name in (MANIFEST, RECORDS, SESSIONS)):
        raise UserError(f"{out} already has a run, or a part of one; choose another --out")
    refuse_others(out)
    runs = [read_run(path) for path in paths]
    first = runs[0][0]
    for path, (manifest, _) in zip(paths, runs, strict=True):
        for name, (here, there) in differing_facts(manifest, first).items():
            raise UserError(f"{path} and {paths[0]} differ in {name}: {here}, {there}")
        if manifest.shard is None or first.shard is None:
            raise UserError(f"{path} is not a shard: it was played without --shard")
        if manifest.shard.count != first.shard.count:
            raise UserError(
                f"{path} is one of {manifest.shard.count} shards, but {paths[0]} is one of "
                f"{first.shard.count}"
            )
    present = sorted(manifest.shard.index for manifest, _ in runs if manifest.shard)
    count = first.shard.count if first.shard else 0
    if present != list(range(1, count + 1)):
        raise UserError(f"shards {present} of {count} are given; give each shard once")
    records = {record.key: record for _, shard in runs for record in shard}
    order = _order(first)
    missing = [key for key in order if key not in records]
    if missing:
        raise UserError(
            f"{len(missing)} episodes are missing (first: {missing[0]}); finish the shards"
        )
    manifest = first.model_copy(update={"shard": None})
    _write(out, manifest, [records[key] for key in order], paths)
    return manifest


def _order(manifest: Manifest) -> list[Key]:
    planned = tuple(
        PlannedPanel(*installed_panel(protocol), protocol) for protocol in manifest.panels
    )
    return Plan(planned, limit=manifest.limit).keys()


def _whole_lines(path: Path) -> bytes:
    """A file's content without a last line that a crash cut off."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def _write(
    out: Path, manifest: Manifest, records: Sequence[EpisodeRecord], paths: Sequence[Path]
) -> None:
    with os_error_as(f"{out} cannot be written"):
        out.mkdir(parents=True, exist_ok=True)
        lines = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
        write_atomically(out / RECORDS, lines)
        sessions = [path / SESSIONS for path in paths if (path / SESSIONS).exists()]
        write_atomically(out / SESSIONS, b"".join(_whole_lines(path) for path in sessions))
        content = manifest.model_dump_json(indent=2) + "\n"
        write_atomically(out / MANIFEST, content.encode())
