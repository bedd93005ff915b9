"""Tools for people who work on the package; run as ``python -m tools.NAME``."""
