"""Words for error messages, without any import that takes time: the command line needs them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

# How much alike two names must be, from 0 to 1, for one to be a slip of the other: "ctiy" and
# "city" are 0.75 alike, "zero" and "error", which nobody means by it, 0.67.
_ALIKE = 0.7


def did_you_mean(name: str, known: Iterable[Any]) -> str:
    """Return " Did you mean 'x'?" for known names that are spelled almost alike, or ""."""
    spelled = {str(entry).lower(): str(entry) for entry in known}
    near = difflib.get_close_matches(name.lower(), spelled, cutoff=_ALIKE)
    # Another case is no other name, whatever else is spelled alike.
    close = [name.lower()] if name.lower() in spelled else near
    return f" Did you mean {' or '.join(repr(spelled[word]) for word in close)}?" if close else ""
