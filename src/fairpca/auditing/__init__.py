"""The audit: whom a projection serves, for every group and over the number of components.

`run` holds `audit`, which reads the rows, collects the projections of `candidates`, resamples
(`resample`) and returns the records of `findings`; `verdict` puts them into words. Nothing here
draws or prints: `fairpca.plots`, `fairpca.report` and `fairpca.cli` do.
"""

from fairpca.auditing.findings import Audit
from fairpca.auditing.run import audit

__all__ = ["Audit", "audit"]
