"""Starts a real vLLM server process for tests and benchmarks, and always stops it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from baselines.launch.fleet import reserved_ports

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1",
    # An engine in the test process sets it to 1, which prevents a server from starting.
    "TORCHDYNAMO_DISABLE": "0",
}
CPU_ARGUMENTS = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192")
"""vllm-cpu 0.32.0 crashes on a seeded request whose prompt is prefilled in two chunks."""
EAGER = ("--enforce-eager",)
"""Skips compilation of the model, which takes longer than most tests."""

START_SECONDS = 600.0
STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class VllmServer:
    """A running server.

    Attributes:
        url: Base address, without `/v1`.
        model: Name under which the model is served.
        process: Leader of the server's process group.
        log: File with the server's entire output.
    """

    url: str
    model: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def kill(self) -> None:
        """Kill the server and its workers immediately with SIGKILL, as in a crash."""
        _signal_group(self.process, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)


def free_port() -> int:
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def vllm_server(
    model: Path,
    served_name: str = "tiny",
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[VllmServer]:
    """Run `vllm.entrypoints.openai.api_server` until the block ends.

    Args:
        model: Folder of the model.
        served_name: Name to serve it under.
        arguments: Further command line arguments.
        environment: Further environment variables.

    Raises:
        RuntimeError: The server exited or did not answer in time; includes the end of its log.
    """
    with (
        reserved_ports(1) as (port,),
        _running(model, port, served_name, arguments, environment or {}) as server,
    ):
        yield server


@contextmanager
def _running(
    model: Path,
    port: int,
    served_name: str,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
) -> Iterator[VllmServer]:
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", served_name),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"),
        *("--disable-uvicorn-access-log", *CPU_ARGUMENTS, *arguments),
    ]
    with tempfile.TemporaryDirectory(prefix="vllm-server-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ENVIRONMENT, **environment},
                start_new_session=True,
            )
        server = VllmServer(f"http://127.0.0.1:{port}", served_name, process, log)
        try:
            _wait_until_healthy(server)
            yield server
        finally:
            _stop(process)


def _wait_until_healthy(server: VllmServer) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{server.url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            status = server.process.poll()
            if status is None and time.monotonic() < deadline:
                time.sleep(0.25)
                continue
        cause = "did not answer in time" if status is None else f"ended with status {status}"
        tail = server.log.read_text("utf-8", "replace")[-8_000:]
        raise RuntimeError(f"the vLLM server {cause}; its log ends:\n{tail}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    _signal_group(process, signal.SIGKILL)
    process.wait(STOP_SECONDS)


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
