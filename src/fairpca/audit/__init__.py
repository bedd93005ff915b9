"""The audit: whom a projection serves, for every group and over the number of components."""

from fairpca.audit.findings import Audit
from fairpca.audit.run import audit

__all__ = ["Audit", "audit"]
