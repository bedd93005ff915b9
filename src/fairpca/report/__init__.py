"""An audit as one HTML file that needs no network."""

from fairpca.report.page import render_page, write_page

__all__ = ["render_page", "write_page"]
