"""Transfer of a trainer's weights to vLLM servers.

| transfer | way | needs |
|---|---|---|
| `FolderTransfer` | a safetensors file that every server reads | one file system |
| `NcclTransfer` (`nccl_transfer.py`) | NCCL broadcast from GPU to GPU | CUDA, vLLM in the trainer |
"""

import asyncio
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from benchmark.engines.core.weights import WeightLayout, read_layout, write_weights
from benchmark.engines.server.vllm_control import VllmControl, all_done
from tasks.errors import UserError


class WeightTransfer(ABC):
    """Sends weights to servers.

    Args:
        model: Folder of the model that the servers were started with, for the names and shapes of
            its tensors.
    """

    def __init__(self, model: Path) -> None:
        self._model = model
        self._layout: WeightLayout | None = None

    def layout(self) -> WeightLayout:
        """The model's tensors.

        Raises:
            UserError: `model` contains no model.
        """
        if self._layout is None:
            self._layout = read_layout(self._model)
        return self._layout

    async def prepare(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Do what can be done while the servers still generate.

        Args:
            weights: A tensor for every name, including tied ones.
            version: Their version.

        Raises:
            UserError: The weights cannot be sent; nothing was changed.
        """

    @abstractmethod
    async def send(
        self, servers: Sequence[VllmControl], weights: Mapping[str, torch.Tensor], version: int
    ) -> None:
        """Replace the weights of paused servers.

        Args:
            servers: All servers.
            weights: The weights given to `prepare`.
            version: Likewise.

        Raises:
            EngineDown: A server did not load them.
        """

    async def clear(self, version: int) -> None:
        """Delete what `prepare` left, even if it failed; called once per `prepare`."""

    async def close(self) -> None:
        """Free the transfer's resources."""


class FolderTransfer(WeightTransfer):
    """Writes a safetensors file and has every server read it.

    Works if trainer and servers see a folder under the same path: on one machine (best in memory,
    `/dev/shm/...`) or on a shared file system. The file is complete before servers are told to read
    it, and is deleted when all have. Run with servers on CPUs; not with CUDA.

    Args:
        model: See `WeightTransfer`.
        folder: Folder for the files; created if missing.
    """

    def __init__(self, model: Path, folder: Path) -> None:
        super().__init__(model)
        self._folder = folder.absolute()

    async def prepare(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Write the file."""
        await asyncio.to_thread(self._write, weights, version)

    async def send(
        self, servers: Sequence[VllmControl], weights: Mapping[str, torch.Tensor], version: int
    ) -> None:
        """Have every server read the file."""
        await all_done([server.reload(self._path(version)) for server in servers])

    async def clear(self, version: int) -> None:
        """Delete the file."""
        await asyncio.to_thread(shutil.rmtree, self._path(version), True)

    def _path(self, version: int) -> Path:
        return self._folder / f"weights-{version}"

    def _write(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        path = self._path(version)
        partial = path.with_name(path.name + ".partial")
        try:
            for left_over in (partial, path):
                shutil.rmtree(left_over, ignore_errors=True)
            partial.mkdir(parents=True)
            write_weights(partial, weights)
            partial.rename(path)
        except OSError as error:
            raise UserError(
                f"the weights cannot be written to {path}: {error.strerror or error}; choose "
                "another folder"
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
