"""Links, paths in AGENTS.md and a figure named in documents exist. Percentages have one style."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`([\w./-]+(?:/|\.py|\.md))`")


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", pattern], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_every_relative_link_leads_somewhere() -> None:
    links = [
        (document, link)
        for document in tracked("*.md")
        for link in LINK.findall(document.read_text("utf-8"))
        if "://" not in link and not link.startswith("mailto:")
    ]
    assert len(links) > 50
    assert [(str(d), link) for d, link in links if not (d.parent / link).exists()] == []


def test_every_path_in_the_agents_file_exists() -> None:
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    places, _, rest = text.partition("## Commands")
    # Files in a folder are named relative to it: "`tasks/`: ... `base.py` is the interface".
    missing = []
    for place in places.split("\n- ")[1:]:
        folder, *parts = PATH.findall(place)
        missing += [folder] if not (ROOT / folder).is_dir() else []
        for part in parts:
            if not (ROOT / folder / part).exists() and not (ROOT / part).exists():
                missing.append(f"{folder}{part}")
    missing += [name for name in PATH.findall(rest) if not (ROOT / name).exists()]
    assert missing == []


def test_the_agents_file_names_every_script_and_folder() -> None:
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    scripts = [path.name for path in tracked("scripts/*")]
    folders = {path.relative_to(ROOT).parts[0] + "/" for path in tracked("*/*")}
    named = {folder for folder in folders if not folder.startswith(".")} - {"docs/"}
    assert [name for name in (*scripts, *sorted(named)) if f"`{name}`" not in text] == []


def test_the_honest_pairs_behind_a_limit_are_those_of_the_document_that_it_names() -> None:
    source = (ROOT / "benchmark/submissions/plays/likeness.py").read_text("utf-8")
    ((pairs, document),) = re.findall(r"Of ([\d,]+) honest pairs .*\((\S+\.md)\)", source)
    assert f" {pairs} pairs of this project's runs" in (ROOT / document).read_text("utf-8").replace(
        "\n", " "
    )


def test_percentages_have_no_space() -> None:
    """`95%`, in the style of `percent_text`."""
    documents = [*tracked("*.md"), *tracked("*.md.j2")]
    spaced = [str(each) for each in documents if re.search(r"[\d\]] %", each.read_text("utf-8"))]
    assert spaced == []
