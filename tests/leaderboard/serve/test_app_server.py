"""The served page: what is accessible, and what is not."""

import csv
import io
import json
import os
import socket
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmark.cli.main import main
from leaderboard.board.board import Board
from leaderboard.board.file import PARQUET
from leaderboard.serve.server import application
from tasks.alfworld.engine.package import VERSIONS
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.leaderboard.page_calls import SHOWN
from tests.support.board_rows import board_content, board_of, board_row, hostile
from tests.support.runs.report_runs import INJECTION

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    rows = [
        board_row("20260101_good", {SOKOBAN: [first(60)], ALFWORLD: [first(50)]}),
        hostile(board_row("20260102_hostile", {SOKOBAN: [first(20)]}), INJECTION),
    ]
    return board_of(tmp_path_factory.mktemp("served"), board_content(rows, ALFWORLD, SOKOBAN))


@pytest.fixture(scope="module")
def client(board: Board) -> TestClient:
    return TestClient(application(board, Path("nowhere")), raise_server_exceptions=False)


def test_health(client: TestClient) -> None:
    answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "entries": {"v1": 2}})


def test_the_page_brings_its_board(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    start = answer.text.index("window.gradio_config = ") + len("window.gradio_config = ")
    config, _ = json.JSONDecoder().raw_decode(answer.text[start:])
    values = [str(each["props"].get("value")) for each in config["components"]]
    assert any("Entries of the leaderboard" in value and "good" in value for value in values)
    # The hostile name appears in a script of the page, as data that cannot end the script.
    assert "<script>document.title" not in answer.text
    assert answer.text.count("</script>") == answer.text.count("<script")


def test_headers_keep_the_page_to_itself(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_whole_board_as_json(client: TestClient) -> None:
    answer = client.get("/leaderboard.json")
    assert answer.headers["content-type"] == "application/json"
    assert [each["id"] for each in answer.json()["entries"]] == [
        "20260101_good", "20260102_hostile",
    ]  # fmt: skip


def test_csv_of_a_view(client: TestClient) -> None:
    answer = client.get("/leaderboard.csv?panels=sokoban/builtin&sort=success&reverse=1")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["id"] for row in table] == ["20260102_hostile", "20260101_good"]
    assert float(table[1]["sokoban/builtin [share]"]) == 0.6


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("panels=alfworld/buitin", "something that is not on the board: task alfworld/buitin"),
        ("tracks=stress", "There is no field tracks."),
        ("reverse=true", "something that is not on the board: reverse true"),
    ],
)
def test_a_csv_of_what_is_not_there_is_refused(client: TestClient, query: str, said: str) -> None:
    answer = client.get(f"/leaderboard.csv?{query}")
    assert answer.status_code == 400
    assert said in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/gradio_api/upload"),
        ("GET", "/gradio_api/upload_progress"),
        ("GET", "/gradio_api/file=/etc/passwd"),
        ("GET", "/gradio_api/file/etc/passwd"),
        ("GET", "/gradio_api/info"),
        ("GET", "/gradio_api/openapi.json"),
        ("POST", "/gradio_api/call/used"),
        ("POST", "/gradio_api/api/used"),
        ("POST", "/gradio_api/queue/join"),
        ("POST", "/gradio_api/component_server"),
        ("GET", "/gradio_api/proxy=https://example.org/"),
        ("GET", "/gradio_api/deep_link"),
        ("GET", "/gradio_api/runs"),
        ("GET", "/monitoring"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("PUT", "/"),
        ("POST", "/"),
        ("POST", "/leaderboard.csv"),
        ("DELETE", "/health"),
        ("GET", "//gradio_api/info"),
        ("GET", "/static/../gradio_api/info"),
    ],
)
def test_everything_else_is_closed(client: TestClient, method: str, path: str) -> None:
    assert client.request(method, path).status_code in (403, 404)


def test_an_event_answers(client: TestClient) -> None:
    config = client.get("/config").json()
    number = next(
        each["id"]
        for each in config["dependencies"]
        if {event for _, event in each["targets"]} == {"load"}
    )
    body = {"fn_index": number, "data": SHOWN, "session_hash": "a"}
    answer = client.post("/gradio_api/run/predict?tab=compare", json=body)
    assert answer.status_code == 200
    assert "minus" in json.dumps(answer.json())


def test_a_board_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "serve", "--board", "nothing.parquet"]) == 2
    said = capsys.readouterr().err
    assert "nothing.parquet" in said and "leaderboard build" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.slow
def test_without_gradio_it_says_what_to_install(tmp_path: Path) -> None:
    board_of(tmp_path, board_content([], SOKOBAN))
    program = (
        "import sys; sys.modules['gradio'] = None; from benchmark.cli.main import main; "
        "sys.exit(main(['leaderboard', 'serve', '--board', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / PARQUET)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "the page needs the package gradio" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_port_that_is_taken(
    board: Board, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [board_row("20260101_good", {SOKOBAN: [first(60)]})]
    board_of(tmp_path, board_content(rows, SOKOBAN))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        asked = ["leaderboard", "serve", "--board", str(tmp_path / PARQUET), "--port", str(port)]
        assert main(asked) == 2
    assert "choose another with --port" in capsys.readouterr().err


def test_the_space_has_the_versions_of_the_repository() -> None:
    pins = lines(ROOT / "requirements/constraints.txt")
    needed = lines(ROOT / "leaderboard/requirements.txt")
    assert len(needed) > 10
    # The platform's own install line allows no newer pydantic (see the next test).
    assert needed - pins == {"pydantic==2.12.5"}
    head = (ROOT / "leaderboard/README.md").read_text("utf-8").split("---")[1]
    front = yaml.safe_load(head)
    assert f"gradio=={front['sdk_version']}" in pins
    assert front["sdk"] == "gradio"
    assert (ROOT / front["app_file"]).is_file()
    assert len(front["short_description"]) <= 60


def install_line() -> list[str]:
    """The platform's own packages, installed in addition to ours."""
    sdk = yaml.safe_load((ROOT / "leaderboard/README.md").read_text("utf-8").split("---")[1])
    return [f"gradio[oauth,mcp]=={sdk['sdk_version']}", "uvicorn", "websockets", "spaces"]


def test_our_packages_are_what_the_platforms_line_allows() -> None:
    """Without a network: compares the requirements of gradio's extras with ours."""
    pins = dict(line.split("==") for line in lines(ROOT / "leaderboard/requirements.txt"))
    named = {canonicalize_name(name): version for name, version in pins.items()}
    asked = [Requirement(each) for each in requires("gradio") or []]
    ours = [
        each
        for each in asked
        if canonicalize_name(each.name) in named
        and any(
            each.marker is None or each.marker.evaluate({"extra": extra})
            for extra in ("", "oauth", "mcp")
        )
    ]
    assert {"pydantic", "numpy", "pandas"} <= {canonicalize_name(each.name) for each in ours}
    for each in ours:
        assert each.specifier.contains(named[canonicalize_name(each.name)]), str(each)


@pytest.mark.slow
def test_the_spaces_install_line_resolves(tmp_path: Path) -> None:
    """The exact install line of the platform, with the resolver that it uses."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
            "--report", str(report), "-r", str(ROOT / "leaderboard/requirements.txt"),
            *install_line(),
        ],
        check=False, capture_output=True, text=True,
        # A Space has none of this repository's constraints, which `make test` sets.
        env={name: value for name, value in os.environ.items() if "CONSTRAINT" not in name},
    )  # fmt: skip
    if "No matching distribution" in done.stderr and "ResolutionImpossible" not in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr[-2000:]
    found = {
        each["metadata"]["name"].lower(): each["metadata"]["version"]
        for each in json.loads(report.read_text("utf-8"))["install"]
    }
    assert found["pydantic"] == "2.12.5"
    assert {"mcp", "spaces", "authlib", "gradio"} <= set(found)


def test_an_entry_never_blocks_an_update_and_every_world_is_there() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/space.yml").read_text("utf-8"))
    steps = {step.get("name"): step.get("run", "") for step in workflow["jobs"]["upload"]["steps"]}
    build = steps["Build"]
    assert "leaderboard build" in build and "|| status=$?" in build and "-le 1" in build
    (pin,) = (f"{name}=={version}" for name, version in VERSIONS.items())
    assert f"--no-deps --target build/space {pin}" in steps["Put together"]
    assert "--repo-type dataset" in steps["Publish the data"]


def lines(path: Path) -> set[str]:
    content = path.read_text("utf-8").splitlines()
    return {line for line in content if line and not line.startswith("#")}


def test_the_workflow_takes_its_secrets_from_outside() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/space.yml").read_text("utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["if"] == "vars.HF_SPACE != ''"
    upload = next(step for step in job["steps"] if step.get("name") == "Upload")
    assert upload["env"] == {
        "HF_TOKEN": "${{ secrets.HF_TOKEN }}",
        "HF_SPACE": "${{ vars.HF_SPACE }}",
    }
    assert workflow["permissions"] == {
        "actions": "read", "contents": "read", "pull-requests": "read",
    }  # fmt: skip
