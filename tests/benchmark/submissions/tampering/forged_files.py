"""Forged files: hashes, sizes, archives, paths, links, and unexpected files."""

import io
import os
import shutil
import zipfile
from collections.abc import Callable
from typing import Any

from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy, Json, big_frame, squeezed, unpacked

RECORDS = "runs/r0/episodes.jsonl.zst"
RUN = "runs/r0/run.json"
ABOUT = "submission.json"
GIB = 2**30


def listed(name: str = RECORDS, **changes: Any) -> Callable[[Copy], None]:
    """Change the listed facts of a file."""

    def change(about: Json) -> None:
        next(file for file in about["files"] if file["path"] == name).update(changes)

    return lambda copy: copy.about(change)


def stored(make: Callable[[bytes], bytes], size: int | None = None) -> Callable[[Copy], None]:
    """Store other bytes in place of the records, and list them with their hash."""

    def change(copy: Copy) -> None:
        content = copy.read(RECORDS)
        (copy.folder / RECORDS).write_bytes(make((copy.folder / RECORDS).read_bytes()))
        copy.relist(RECORDS, len(content) if size is None else size)

    return change


def flipped(stored: bytes) -> bytes:
    """Flip the last bit of the first decimal digit in a prompt's hash."""
    content = bytearray(unpacked(stored))
    at = content.index(b'"prompt_hash":"') + len(b'"prompt_hash":"')
    at = next(place for place in range(at, at + 16) if chr(content[place]).isdecimal())
    content[at] ^= 1
    return squeezed(bytes(content))


def zipped(_: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("episodes.jsonl", "{}\n")
    return content.getvalue()


def plain(name: str, content: bytes) -> Callable[[Copy], None]:
    """Write a file without listing it."""

    def change(copy: Copy) -> None:
        (copy.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (copy.folder / name).write_bytes(content)

    return change


def about(content: bytes) -> Callable[[Copy], None]:
    """Replace `submission.json`."""
    return plain(ABOUT, content)


def gone(name: str) -> Callable[[Copy], None]:
    return lambda copy: (copy.folder / name).unlink()


def not_listed(copy: Copy) -> None:
    copy.about(lambda about: about["files"].pop(0))


def link_to_a_file(copy: Copy) -> None:
    (copy.folder / RUN).rename(copy.folder.parent / "elsewhere.json")
    (copy.folder / RUN).symlink_to(copy.folder.parent / "elsewhere.json")


def link_to_a_folder(copy: Copy) -> None:
    (copy.folder / "runs").rename(copy.folder.parent / "elsewhere")
    (copy.folder / "runs").symlink_to(copy.folder.parent / "elsewhere")


def linked_submission(copy: Copy) -> None:
    copy.folder.rename(copy.folder.parent / "elsewhere")
    copy.folder.symlink_to(copy.folder.parent / "elsewhere")


def named_pipe(copy: Copy) -> None:
    (copy.folder / RUN).unlink()
    os.mkfifo(copy.folder / RUN)


def socket_like(copy: Copy) -> None:
    shutil.rmtree(copy.folder / "runs" / "r0")
    (copy.folder / "runs" / "r0").write_bytes(b"")


def run_path(path: str) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda about: about["checkpoints"][0].update(runs=[path]))


def many_files(copy: Copy) -> None:
    (copy.folder / "many").mkdir()
    for number in range(300):
        (copy.folder / "many" / f"{number}").touch()


def at(url: str) -> Callable[[Copy], None]:
    return listed(url=url)


def at_length(size: int) -> Callable[[Copy], None]:
    """List a long file on the hub, although it contains little."""

    def change(copy: Copy) -> None:
        on_the_hub(copy)
        listed(bytes=size)(copy)
        (copy.folder / RECORDS).unlink()

    return change


def on_the_hub(copy: Copy) -> None:
    listed(url=f"https://huggingface.co/datasets/a/b/resolve/{'0' * 40}/x.zst")(copy)


SKIPPED = b"\x50\x2a\x4d\x18" + (500).to_bytes(4, "little") + bytes(500)
"""A skippable Zstandard frame."""
NOT_ONE_FRAME = "is not a single Zstandard frame"
PATH = "files.1.path: String should match pattern"
URL = "files.1.url: not a file of a dataset on the hub"
FORGERIES = [
    Forgery("wrong hash", "policy", listed(sha256="0" * 64), f"{RECORDS}, sha256: "),
    Forgery("wrong size", "policy", listed(bytes=7), ", but 7 are stated"),
    Forgery("wrong content size", "policy", listed(content_bytes=20_000), "bytes, but 20,000 are"),
    Forgery("more content stated", "policy", listed(content_bytes=10**7), "10,000,000 are stated"),
    Forgery("more stored than packed", "policy", at_length(2**33), "8,589,934,592 bytes, at most"),
    Forgery("not a hash", "policy", listed(sha256="0" * 63), "files.1.sha256: String should match"),
    Forgery("negative size", "policy", listed(bytes=-1), "files.1.bytes: Input should be greater"),
    Forgery(
        "10 GB stated", "policy", listed(content_bytes=10 * GIB), "content_bytes: Input should"
    ),
    Forgery("5 GB stated", "policy", listed(content_bytes=5 * GIB), "at most 268,435,456 are read"),
    Forgery(
        "bomb stated small", "policy", stored(lambda _: big_frame(), 10**6), "holds more bytes,"
    ),
    Forgery(
        "bomb stated", "policy", stored(lambda _: big_frame(), GIB), "at most 268,435,456 are "
    ),
    Forgery(
        "bomb below the limit",
        "policy",
        stored(lambda _: big_frame(2**26), 2**26),
        "67,108,864 bytes, at most 10,",
    ),
    Forgery(
        "long logs",
        "trained",
        listed("training/s1.jsonl.zst", content_bytes=2**25),
        "submission.json, training logs: 33,",
    ),
    Forgery("zip file", "policy", stored(zipped), "cannot be unpacked: ZSTD decompress failed"),
    Forgery("bytes beside the content", "policy", stored(lambda b: b + SKIPPED), NOT_ONE_FRAME),
    Forgery("flipped bit", "policy", stored(flipped), "does not match"),
    Forgery("nothing", "policy", stored(lambda _: b""), "episodes.jsonl.zst holds 0 bytes, "),
    Forgery("other bytes", "policy", plain(RECORDS, squeezed(b"{}\n")), f"{RECORDS}, bytes: "),
    Forgery("a file too many", "policy", plain("x.sh", b"ls"), "x.sh: belongs to no run and no "),
    Forgery(
        "hidden file", "policy", plain(".github/x.yml", b""), ".github/x.yml: belongs to no run"
    ),
    Forgery("listed and missing", "policy", gone(RECORDS), f"{RECORDS}: is listed but missing"),
    Forgery("there and not listed", "policy", not_listed, f"files: {RUN} is not listed"),
    Forgery("there and on the hub", "policy", on_the_hub, f"{RECORDS}, url: is in the folder but"),
    Forgery("link to elsewhere", "policy", at("https://example.org/episodes.jsonl.zst"), URL),
    Forgery(
        "link to a branch", "policy", at("https://huggingface.co/datasets/a/b/resolve/main/x"), URL
    ),
    Forgery(
        "link out of the data set",
        "policy",
        at(f"https://huggingface.co/datasets/a/b/resolve/{'0' * 40}/../../x.zst"),
        URL,
    ),
    Forgery("size of a plain file", "policy", listed(RUN, content_bytes=9), "for .zst files"),
    Forgery("no size of an archive", "policy", listed(content_bytes=None), "for .zst files"),
    Forgery("more than 10 MiB", "policy", plain("big", bytes(11 * 2**20)), "or 10,485,760 bytes"),
    Forgery("too many files", "policy", many_files, "holds more than 289 files"),
    Forgery(
        "long README", "policy", plain("README.md", b"x" * 2**17), "is longer than 65,536 bytes"
    ),
    Forgery("no README", "policy", gone("README.md"), "README.md: is listed but missing"),
    Forgery(
        "badge in the README",
        "policy",
        plain("README.md", b"# Mine\n\n![re-run](https://img.shields.io/badge/re--run-passed)"),
        "README.md, line 3: has an image or HTML",
    ),
    Forgery("binary README", "policy", plain("README.md", b"\xff"), "README.md: is not UTF-8"),
    Forgery(
        "README that hides something",
        "policy",
        plain("README.md", "fine \u26a0\ufe0f\r\nas \u202esdrow".encode()),
        "README.md, line 2: U+202E is not a visible character",
    ),
    Forgery("path traversal", "policy", listed(path=f"../20260101_policy/{RECORDS}"), PATH),
    Forgery("absolute path", "policy", listed(path="/etc/passwd"), PATH),
    Forgery("backslashes", "policy", listed(path="runs\\r0\\episodes.jsonl.zst"), PATH),
    Forgery("path with a zero byte", "policy", listed(path="runs/r0/a\0b"), PATH),
    Forgery("path of a folder", "policy", listed(path="runs/r0/"), PATH),
    Forgery(
        "run elsewhere", "policy", run_path("../../runs"), "runs.0: String should match pattern"
    ),
    Forgery(
        "run at the root", "policy", run_path("/runs/r0"), "runs.0: String should match pattern"
    ),
    Forgery(
        "run that is not there", "policy", run_path("runs/r7"), "runs/r7/run.json is not listed"
    ),
    Forgery("link to a file", "policy", link_to_a_file, f"{RUN}: is a link or not a regular file"),
    Forgery(
        "link to a folder", "policy", link_to_a_folder, "runs: is a link or not a regular file"
    ),
    Forgery("linked submission", "policy", linked_submission, "20260102_policy is not a folder"),
    Forgery("named pipe", "policy", named_pipe, f"{RUN}: is a link or not a regular file"),
    Forgery("file for a folder", "policy", socket_like, "runs/r0: belongs to no run and no "),
    Forgery("deep folders", "policy", plain("a/b/c/d/e", b""), "a/b/c/d: is nested too deeply"),
    Forgery("no submission.json", "policy", gone(ABOUT), f"{ABOUT}: cannot be read: No such file"),
    Forgery("long submission.json", "policy", about(b" " * 2**19), "is longer than 262,144 bytes"),
    Forgery(
        "submission.json, UTF-8", "policy", about(b'{"name": "\xff"}'), f"{ABOUT}: is not UTF-8"
    ),
    Forgery(
        "no JSON",
        "policy",
        about(b"schema_version: 1"),
        f"{ABOUT}: is not valid JSON: Expecting va",
    ),
    Forgery(
        "byte order mark",
        "policy",
        about(b"\xef\xbb\xbf{}"),
        f"{ABOUT}: is not valid JSON: Unexpect",
    ),
    Forgery(
        "deep submission.json",
        "policy",
        about(b"[" * 10**5),
        "submission.json: is nested too deeply",
    ),
    Forgery(
        "huge number",
        "policy",
        about(b'{"a": ' + b"9" * 10**4 + b"}"),
        "is not valid JSON: the number 99999999999999999999... is too large",
    ),
    Forgery("submission.json is a list", "policy", about(b"[]"), "Input should be an object"),
    Forgery(
        "file name that paints the terminal",
        "policy",
        plain("x\x1b[2J\n20260102_policy: accepted", b""),
        "xU+001B[2JU+000A20260102_policy: accepted: belongs to no run",
    ),
    Forgery(
        "file name that is not UTF-8",
        "policy",
        lambda copy: (copy.folder / os.fsdecode(b"x\xff")).touch(),
        "xU+DCFF: belongs to no run",
    ),
]
