"""Checkpoints: moments counted so far and which pieces they hold, in one file.

Pieces are merged in order, so what is counted is always the first so many of them. Going on needs
the same options and the same versions of the files already begun; later files may have been
repaired or added since.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairpca.io.sources import Source
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.storage import ARRAYS, atomic_write, damage_named, read_archive, unpack

_FORMAT = 1


@dataclass(frozen=True)
class Counted:
    """What has been counted of a source.

    Attributes
    ----------
    pieces : int
        The first so many pieces.
    file : int
        Position of the last file begun; -1 before the first.
    moments : GroupMoments or None
    share : float
        Part of the data, as far as known.
    """

    pieces: int = 0
    file: int = -1
    moments: GroupMoments | None = None
    share: float = 0.0

    @property
    def rows(self) -> int:
        """Rows counted."""
        return 0 if self.moments is None else int(self.moments.count.sum())


def check_place(path: Path) -> None:
    """Refuse a checkpoint that could not be written, before work starts."""
    if path.is_dir():
        raise ValueError(f"checkpoint={path} is a directory; name a file.")
    if not path.parent.is_dir():
        raise ValueError(f"checkpoint={path}: there is no directory {path.parent}.")


def write_checkpoint(path: Path, source: Source, counted: Counted) -> None:
    """Write what has been counted, atomically."""
    if counted.moments is None:
        return
    state = {
        "format": _FORMAT,
        "options": source.identity(),
        "files": [[f.path, f.size, f.mtime_ns] for f in source.files[: counted.file + 1]],
        "pieces": counted.pieces,
        "share": counted.share,
    }
    arrays = {"state": np.array(json.dumps(state)), **counted.moments.packed()}
    with atomic_write(path) as file:
        np.savez(file, **arrays)


def read_checkpoint(path: Path, source: Source) -> Counted:
    """Return what an earlier run has counted; ValueError if it is not of this source."""
    if not path.exists():
        return Counted()
    state, moments = _load(path)
    remedy = f"Start over by deleting {path}, or name another checkpoint."
    options = source.identity()
    differing = [key for key in options if state["options"].get(key) != options[key]]
    if differing:
        raise ValueError(
            f"checkpoint={path} was written with other {', '.join(differing)} than asked for now, "
            f"and cannot be continued. {remedy}"
        )
    files = [[f.path, f.size, f.mtime_ns] for f in source.files]
    for position, before in enumerate(state["files"]):
        now = files[position] if position < len(files) else None
        if now is None or now[0] != before[0]:
            raise ValueError(
                f"checkpoint={path} has counted {before[0]}, which is not file number "
                f"{position + 1} of this source. {remedy}"
            )
        if now != before:
            raise ValueError(
                f"checkpoint={path} has counted rows of {before[0]}, and the file has changed "
                f"since. {remedy}"
            )
    return Counted(state["pieces"], len(state["files"]) - 1, moments, state["share"])


def _load(path: Path) -> tuple[dict[str, Any], GroupMoments]:
    """Return the state and the moments of a checkpoint, or raise ValueError naming it."""
    with (
        damage_named(
            f"checkpoint={path} is not a checkpoint of this version",
            "name another file, or delete it.",
        ),
        path.open("rb") as file,
    ):
        parts = read_archive(file, ("state", "header", *ARRAYS))
        state = json.loads(str(parts["state"]))
        if state["format"] != _FORMAT:
            raise ValueError(f"format {state['format']} is not known")
        return _checked(state), GroupMoments(**unpack(parts))


def _checked(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a checkpoint with every field of the type it must have."""
    return {
        "options": dict(state["options"]),
        "files": [[str(path), int(size), int(changed)] for path, size, changed in state["files"]],
        "pieces": int(state["pieces"]),
        "share": float(state["share"]),
    }
