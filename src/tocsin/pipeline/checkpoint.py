"""Spark's checkpoint of a stream, and whose it is.

Spark notes a batch's offsets here before it runs the batch. A checkpoint belongs to one store and one format; another
one is refused, since its offsets would skip documents or send some twice.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tocsin.errors import PipelineError

FORMAT = 1


class Checkpoint:
    """A stream's folder of offsets and commits."""

    def __init__(self, folder: Path, site: str) -> None:
        self.folder = folder
        mark = folder / "tocsin.json"
        if not mark.exists():
            if folder.exists() and any(folder.iterdir()):
                raise PipelineError(f"{folder}: this folder holds other files: name an empty one for the checkpoint")
            folder.mkdir(parents=True, exist_ok=True)
            beside = mark.with_suffix(".partial")
            beside.write_text(json.dumps({"format": FORMAT, "site": site}), encoding="utf-8")
            beside.replace(mark)
            return
        try:
            found = json.loads(mark.read_text(encoding="utf-8"))
            is_ours, format = found["site"] == site, found["format"]
        except (ValueError, KeyError, TypeError):
            raise PipelineError(f"{mark}: this file is damaged: restore it from a back-up") from None
        if format != FORMAT:
            raise PipelineError(f"{folder}: the checkpoint has format {format}, this Tocsin reads {FORMAT}")
        if not is_ours:
            raise PipelineError(
                f"{folder}: this is the checkpoint of another site ({found['site']}): its offsets mean other documents"
            )

    @property
    def spark(self) -> str:
        """Where Spark keeps its own files."""
        return str(self.folder / "spark")

    def forget_beyond(self, position: int) -> None:
        """Drops Spark's notes if they name documents that the store, restored from a back-up, does not have yet.

        The store knows how far matching has come; without notes Spark starts there.
        """
        noted = [int(file.name) for file in Path(self.spark, "offsets").glob("*") if file.name.isdecimal()]
        if noted and self.position(max(noted)) > position:
            shutil.rmtree(self.spark)

    def position(self, batch: int) -> int:
        """Up to which position the batch goes: the last line of Spark's note."""
        lines = (self.folder / "spark" / "offsets" / str(batch)).read_text(encoding="utf-8").strip().splitlines()
        return int(json.loads(lines[-1])["position"])
