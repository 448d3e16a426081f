"""The folder of a submission: which files are allowed, and whether they match their list."""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from pydantic import ValidationError

from benchmark.archive import sha256_of, unpacked
from benchmark.files import open_no_link
from benchmark.submissions.format.faults import faults_of
from benchmark.submissions.format.findings import Finding, Rejected, as_finding
from benchmark.submissions.format.schema import (
    FOLDER_NAME,
    MAX_FILES,
    README,
    SUBMISSION,
    StoredFile,
    Submission,
)
from benchmark.submissions.format.texts import check_title, check_visible
from benchmark.submissions.reading.remote import fetched
from tasks.strict import whole_number
from tasks.texts import digest_text, is_seen

MAX_FOLDER: Final = 10 * 2**20
"""Maximum total size of a folder's files in bytes; larger records belong on the hub."""
MAX_DEPTH: Final = 3
"""Maximum nesting depth of folders."""
MAX_SUBMISSION: Final = 2**18
"""Maximum size of `submission.json` in bytes."""
MAX_PLAIN: Final = 2**20
"""Maximum size of any other uncompressed file in bytes."""
MAX_README: Final = 2**16
"""Maximum size of a README in bytes. The board does not show it."""
_LEVELS: Final = 64
"""Maximum nesting level of quotes and lists in a README; deeper content is not parsed."""
_MARKDOWN: Final = MarkdownIt("commonmark", {"maxNesting": _LEVELS}).enable("table")
"""GitHub's Markdown, as far as needed to identify code."""
_MARKDOWN.disable("text_join")  # it would merge escaped characters with other text
_FOREIGN: Final = ("image", "html_block", "html_inline")
_DRAWN: Final = re.compile(r"\s*(mermaid|geojson|topojson|stl)\b", re.IGNORECASE)
"""Languages of code blocks that GitHub renders as pictures."""
_PICTURE: Final = re.compile(r"!\[|<\s*[/!]?[a-z](?!ttps?://)", re.IGNORECASE)
"""Images and HTML, which could imitate the board's badges or tables."""
_AS_EMOJI: Final = re.compile(r"(?<=[^\w\s])\ufe0f")
"""Variation selector after a symbol, which makes it an emoji."""
MAX_MANIFEST: Final = 2**15
"""Maximum size of a `run.json` in bytes."""
MAX_CONTENT: Final = 2**28
"""Maximum uncompressed size of one compressed file in bytes."""
MAX_ALL_CONTENT: Final = 2**28
"""Maximum uncompressed size of all compressed files in bytes."""
MAX_LOGS: Final = 2**25
"""Maximum uncompressed size of all training logs in bytes, enough for 15,000 full updates."""
MAX_RATIO: Final = 5_000
"""Maximum compression ratio. Every recorded turn has two hashes and a sum of log-probabilities of
its own; the responses of a policy that repeats one token compress best."""
FREE: Final = 2**20
"""Uncompressed size in bytes that is allowed at any ratio."""


def list_files(folder: Path) -> dict[str, int]:
    """All files of a folder with their sizes, by relative path.

    Raises:
        Rejected: Its name is not valid for a submission, or it contains links, devices, or too many
            or too large files.
    """
    if not folder.is_dir() or folder.is_symlink():
        raise Rejected(Finding("", "", f"{folder} is not a folder", "give a submission's folder"))
    if not FOLDER_NAME.fullmatch(folder.name):
        raise Rejected(
            Finding(
                "",
                "name",
                f"{folder.name!r} is not a valid submission name",
                "name it <yyyymmdd>_<name>, with lowercase letters, digits and hyphens",
            )
        )
    try:
        check_title(folder.name.partition("_")[2])
    except ValueError as error:
        raise Rejected(Finding("", "name", str(error), "rename the folder")) from error
    files: dict[str, int] = {}
    for path, facts in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if stat.S_ISDIR(facts.st_mode):
            raise Rejected(Finding(name, "", "is nested too deeply", "remove it"))
        if not stat.S_ISREG(facts.st_mode):
            raise Rejected(Finding(name, "", "is a link or not a regular file", "remove it"))
        files[name] = facts.st_size
        if len(files) > MAX_FILES or sum(files.values()) > MAX_FOLDER:
            raise Rejected(
                Finding(
                    "",
                    "size",
                    f"holds more than {MAX_FILES} files or {MAX_FOLDER:,} bytes",
                    "put records on the hub (submit to-hub)",
                )
            )
    return files


def _walk(folder: Path, depth: int = MAX_DEPTH) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything in a folder except folders, in order, without following links.

    Folders at the maximum depth are yielded like files.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False) and depth:
            yield from _walk(Path(entry.path), depth - 1)
        else:
            yield Path(entry.path), entry.stat(follow_symlinks=False)


def read_submission(folder: Path) -> Submission:
    """Read `submission.json`.

    Raises:
        Rejected: It is missing, too large, not JSON, or breaks the schema.
    """
    content = read_plain(folder, SUBMISSION, MAX_SUBMISSION)
    try:
        # Pydantic takes the last of duplicate fields; here they are an error.
        given = plain_json(content.decode("utf-8"))
        submission = Submission.model_validate_json(content)
    except ValidationError as error:
        fault = faults_of(error, Submission)[0]
        finding = Finding(SUBMISSION, fault.field, fault.problem, "see schema.json")
        raise Rejected(finding) from error
    except UnicodeDecodeError as error:
        raise Rejected(Finding(SUBMISSION, "", "is not UTF-8", "write it as UTF-8")) from error
    except RecursionError:
        problem = "is nested too deeply"
        raise Rejected(Finding(SUBMISSION, "", problem, "see schema.json")) from None
    except ValueError as error:
        raise Rejected(Finding(SUBMISSION, "", f"is not valid JSON: {error}", "fix it")) from error
    if (place := coerced(given, submission.model_dump(mode="json"))) is not None:
        raise Rejected(Finding(SUBMISSION, place, "has the wrong type", "see schema.json"))
    return submission


def plain_json(content: str | bytes) -> Any:
    """Read JSON that all parsers read alike, with integers of at most 64 bits.

    Raises:
        ValueError: It is not JSON, has a duplicate field, or has an integer of more than 64 bits.
    """
    return json.loads(content, object_pairs_hook=_object, parse_int=whole_number)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field appears twice")
    return found


def coerced(given: Any, read: Any, place: str = "") -> str | None:
    """Find a value that was coerced to another type, such as the text "1" to the number 1.

    Returns:
        The field; None if there is none. Missing fields do not count, because they have defaults.
    """
    if isinstance(given, dict) and isinstance(read, dict):
        pairs = [(key, given[key], read.get(key)) for key in given]
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        pairs = [(str(n), *both) for n, both in enumerate(zip(given, read, strict=True))]
    else:
        types = {type(given), type(read)}
        same = len(types) == 1 or types == {int, float}
        return None if same and given == read else place
    found = (coerced(one, other, f"{place}.{key}" if place else key) for key, one, other in pairs)
    return next((where for where in found if where is not None), None)


def read_plain(folder: Path, name: str, limit: int = MAX_PLAIN) -> bytes:
    """Read an uncompressed file.

    Raises:
        Rejected: It is missing, a link, or too long.
    """
    try:
        with os.fdopen(open_no_link(folder / name, os.O_RDONLY), "rb") as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Rejected(Finding(name, "", f"cannot be read: {reason}", "add the file")) from error
    if len(content) > limit:
        raise Rejected(Finding(name, "size", f"is longer than {limit:,} bytes", "shorten it"))
    return content


def check_readme(folder: Path) -> list[Finding]:
    """Check that the README has only visible text, without images and HTML; its content is free."""
    try:
        text = read_plain(folder, README, MAX_README).decode("utf-8")
    except Rejected as rejected:
        return [rejected.finding]
    except UnicodeDecodeError:
        return [Finding(README, "", "is not UTF-8", "write it as UTF-8")]
    text = _AS_EMOJI.sub("", text.replace("\r\n", "\n"))
    # Tabs count as visible; Markdown treats one as several spaces.
    spaced = text.replace("\t", " ")
    try:
        check_visible(spaced, lines=True)
    except ValueError as error:
        lines = enumerate(spaced.split("\n"), 1)
        unseen = (f"line {number}" for number, line in lines if not all(map(is_seen, line)))
        return [Finding(README, next(unseen, ""), str(error), "use only visible characters")]
    try:
        found = next(_pictures(text), None)
    except RecursionError:
        found = 1
    if found is not None:
        fix = "remove it: write text alone, and code between backquotes"
        return [Finding(README, f"line {found}", "has an image or HTML", fix)]
    return []


def _pictures(text: str) -> Iterator[int]:
    """Lines of a README, from 1, with an image, HTML, or text that could be rendered as either.

    Code is exempt. Identifying it takes a parser: a simple search would take the text between two
    backquotes in different paragraphs for code.
    """
    for token in _MARKDOWN.parse(text):
        line = 1 + (token.map[0] if token.map else 0)
        drawn = token.type == "fence" and _DRAWN.match(token.info)
        if token.type in _FOREIGN or drawn or token.level >= _LEVELS - 1:
            yield line
        prose = ""
        for child in token.children or ():
            if child.type in _FOREIGN:
                yield line + prose.count("\n")
            # Text before and after code or an escape does not join.
            between = "\n" if child.type in ("softbreak", "hardbreak") else " "
            prose += child.content if child.type == "text" else between
        if (seen := _PICTURE.search(prose)) is not None:
            yield line + prose.count("\n", 0, seen.start())


def check_inventory(folder: Path, there: dict[str, int], submission: Submission) -> list[Finding]:
    """Compare the folder's files with the list in `submission.json`.

    Args:
        folder: The folder.
        there: Its files (`list_files`).
        submission: Content of `submission.json`.
    """
    findings = []
    listed = {file.path: file for file in submission.files}
    expected = expected_files(submission)
    for name in sorted({*there, *listed} - expected - {SUBMISSION}):
        fix = "remove it: it is not used"
        findings.append(Finding(name, "", "belongs to no run and no checkpoint", fix))
    for name in sorted(expected - set(listed)):
        fix = "list it with its size and SHA-256, or make the folder with submit prepare"
        findings.append(Finding(SUBMISSION, "files", f"{name} is not listed", fix))
    logs = {log for point in submission.checkpoints for log in point.logs}
    for field, of, limit in (
        ("files", set(listed), MAX_ALL_CONTENT),
        ("training logs", logs, MAX_LOGS),
    ):
        total = sum(file.content_bytes or 0 for file in submission.files if file.path in of)
        if total > limit:
            findings.append(_too_much(field, total, limit))
    for file in submission.files:
        if (file.content_bytes or 0) > MAX_CONTENT:
            findings.append(_too_much(f"files, {file.path}", file.content_bytes, MAX_CONTENT))
        elif (file.content_bytes or 0) > (most := max(FREE, MAX_RATIO * file.bytes)):
            findings.append(_too_much(f"files, {file.path}", file.content_bytes, most))
        elif file.bytes > (longest := _longest(file)):
            findings.append(_too_much(f"files, {file.path}", file.bytes, longest))
        if file.url is None and file.path in expected:
            findings += _check_stored(folder, file, there.get(file.path))
        elif file.path in there:
            problem = "is in the folder but also has a url"
            findings.append(Finding(file.path, "url", problem, "keep one of the two"))
    return findings


def _longest(file: StoredFile) -> int:
    """Maximum stored size of a file in bytes; compressed files may hardly exceed their content."""
    if file.content_bytes is None:
        return MAX_PLAIN
    return file.content_bytes + file.content_bytes // 128 + 1024


def expected_files(submission: Submission) -> set[str]:
    """Paths of all files of a submission except `submission.json`."""
    runs = [run for checkpoint in submission.checkpoints for run in checkpoint.runs]
    names = ("run.json", "episodes.jsonl.zst", "summary.json")
    files = {f"{run}/{name}" for run in runs for name in names}
    files |= {log for point in submission.checkpoints for log in point.logs}
    return files | {README}


def _check_stored(folder: Path, file: StoredFile, size: int | None) -> list[Finding]:
    if size is None:
        return [Finding(file.path, "", "is listed but missing", "add it, or give its url")]
    try:
        digest, size = sha256_of(folder / file.path)
    except OSError as error:
        return [Finding(file.path, "", f"cannot be read: {error.strerror}", "add the file")]
    fix = "list the file's real size and hash, or rebuild the folder with submit prepare"
    if size != file.bytes:
        return [Finding(file.path, "bytes", f"is {size:,}, but {file.bytes:,} are stated", fix)]
    if digest != file.sha256:
        problem = f"is {digest_text(digest)}, but {digest_text(file.sha256)} is stated"
        return [Finding(file.path, "sha256", problem, fix)]
    return []


def read_content(folder: Path, file: StoredFile) -> Iterator[bytes]:
    """Decompress a listed file chunk by chunk.

    Raises:
        Rejected: It is damaged, or its uncompressed size is not the stated one.
    """
    size = file.content_bytes or 0
    with as_finding(file.path, "", "rebuild the folder with submit prepare"):
        stored = fetched(file) if file.url is not None else folder / file.path
        yield from unpacked(stored, size)


def _too_much(field: str, size: int | None, limit: int) -> Finding:
    return Finding(SUBMISSION, field, f"{size:,} bytes, at most {limit:,} are read", "send less")
