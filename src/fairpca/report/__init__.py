"""An audit as one HTML file that needs no network and no script.

`render_page` returns the document and `write_page` stores it. The sentences come from
`fairpca.auditing.words`, the numbers from the audit, the layout from `page.html`.
"""

from fairpca.report.page import render_page, write_page

__all__ = ["render_page", "write_page"]
