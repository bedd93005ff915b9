"""Results that survive an interruption: one small file per finished piece of work."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fairpca
from fairpca.moments.storage import atomic_write

# Drawing and wording may change without the numbers changing.
_NOT_NUMBERS = {"__main__.py", "figures.py", "report.py", "claims.py", "progress.py", "run.py"}


class Store:
    """A folder of JSON results, each valid for the code that computed it.

    Parameters
    ----------
    folder : Path
    reuse : bool
        Accept results of older code too (to redo only figures and text).
    """

    def __init__(self, folder: Path, *, reuse: bool = False) -> None:
        self.folder = folder
        self.reuse = reuse
        self.code = code_digest()
        self.hits = 0
        self.seconds = 0.0

    def get(self, name: str, compute: Callable[[], Any], **settings: Any) -> Any:
        """Return the stored result of `name` with these settings, computing it if needed."""
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        path = self.folder / f"{name.replace('/', '__')}-{key}.json"
        if path.exists():
            entry = json.loads(path.read_text())
            if self.reuse or entry["code"] == self.code:
                self.hits += 1
                self.seconds += entry["seconds"]
                return entry["result"]
        began = time.monotonic()
        result = compute()
        seconds = time.monotonic() - began
        self.seconds += seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, "w") as file:
            entry = {"code": self.code, "settings": settings, "seconds": seconds, "result": result}
            json.dump(entry, file)
        # What comes back is what a later run would read.
        return json.loads(path.read_text())["result"]


def code_digest() -> str:
    """Digest of every source file that can change a number."""
    package, here = Path(fairpca.__file__).parent, Path(__file__).parent
    paths = [*package.glob("*.py"), *here.glob("*.py")]
    rooms = "moments", "covariances", "solvers", "methods", "datasets"
    paths += [path for room in rooms for path in (package / room).glob("*.py")]
    found = hashlib.sha256()
    for path in sorted(paths):
        if path.parent != here or path.name not in _NOT_NUMBERS:
            found.update(path.name.encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]
