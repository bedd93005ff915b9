"""The paper's tables and figures again, and those it does not have: ``python -m experiments``."""
