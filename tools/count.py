"""Count the lines of the package, room by room: code, docstrings, comments and blank lines.

``python -m tools.count`` prints one row for the package root, one for every folder in it, and one
for all. ``python -m tools.count FOLDER`` counts another folder. A line inside a docstring is a
docstring line, even a blank one. A line that holds nothing but a comment is a comment line; a
comment behind code belongs to the code.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "fairpca"
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Count:
    """Modules, and lines of each kind."""

    modules: int = 0
    code: int = 0
    docstring: int = 0
    comment: int = 0
    blank: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def lines(self) -> int:
        """All lines."""
        return self.code + self.docstring + self.comment + self.blank

    def per_code(self, lines: int) -> float:
        """Return a number of lines per line of code."""
        return lines / max(self.code, 1)


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that belong to a docstring."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def count_module(text: str) -> Count:
    """Return the count of one module."""
    documented = docstring_lines(ast.parse(text))
    code = comment = blank = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if number in documented:
            continue
        if not line.strip():
            blank += 1
        elif line.lstrip().startswith("#"):
            comment += 1
        else:
            code += 1
    return Count(1, code, len(documented), comment, blank)


def count_rooms(folder: Path) -> dict[str, Count]:
    """Return the count of every room: the root of the folder first, then each folder in it."""
    rooms: dict[str, Count] = defaultdict(Count)
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        room = inside[0] + "/" if len(inside) > 1 else "(root)"
        rooms[room] += count_module(path.read_text(encoding="utf-8"))
    return dict(sorted(rooms.items()))


def table(rooms: dict[str, Count]) -> Iterable[str]:
    """Yield the lines of the table, that of all rooms last."""
    heads = ("modules", "lines", "code", "docstring", "comment", "blank", "doc:code", "com:code")
    yield f"{'room':14}" + "".join(f"{head:>10}" for head in heads)
    for name, count in [*rooms.items(), ("all", sum(rooms.values(), Count()))]:
        whole = (
            count.modules,
            count.lines,
            count.code,
            count.docstring,
            count.comment,
            count.blank,
        )
        shares = (count.per_code(count.docstring), count.per_code(count.comment))
        cells = [f"{number:>10,}" for number in whole] + [f"{share:>10.3f}" for share in shares]
        yield f"{name:14}" + "".join(cells)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.count", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    folder = parser.parse_args().folder
    if not folder.is_dir():
        parser.error(f"{folder} is not a folder.")
    print("\n".join(table(count_rooms(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
