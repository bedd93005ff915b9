"""Optional libraries: imported where they are needed, with the line that installs them."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module, or say what to install.

    Parameters
    ----------
    module : str
        Dotted name.
    extra : str
        The extra of fairpca that brings it.
    purpose : str
        What needs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        root = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != root:
            raise
        raise ImportError(
            f'{purpose} needs {root}, which is not installed: pip install "fairpca[{extra}]"',
            name=root,
        ) from None
