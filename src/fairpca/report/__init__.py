"""An audit as one HTML file that needs no network.

`render_page` returns the document and `write_page` stores it. The words come from
`fairpca.auditing.verdict` and `page.py`, the layout from `page.html.j2` and `page.css`, and the
charts from `page.js`, which reads the audit's own JSON out of the page.
"""

from fairpca.report.page import render_page, write_page

__all__ = ["render_page", "write_page"]
