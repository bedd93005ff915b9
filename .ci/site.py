"""Build the site as its readers get it, then open its pages in Chromium, from the file system.

``python .ci/site.py FOLDER`` keeps them. Sphinx names links that lead nowhere; the browser finds
what is wrong once a page is drawn.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parents[1] / "docs"
# A word of the site, and a page that a search for it has to find.
SEARCHES = {
    "shrinkage": "reference/generated/fairpca.FairPCA.html",
    "certificate": "reference/generated/fairpca.Certificate.html",
}
# Where a page or its text leaves the screen. Code, tables and formulas scroll in their own frame.
TOO_WIDE = """() => {
  const wide = (e) => e.getBoundingClientRect().right > window.innerWidth + 1;
  const framed = (e) => e.closest("pre, table, .math, .sd-card, dialog, .bd-sidebar-secondary");
  const found = [...document.querySelectorAll(".bd-main :is(p, li, dt, dd, h1, h2, h3, img)")];
  const texts = found.filter((e) => wide(e) && !framed(e)).map((e) => e.outerHTML.slice(0, 80));
  const page = document.documentElement.scrollWidth - window.innerWidth;
  return page > 0 ? [`${page} pixels`, ...texts] : texts;
}"""


def watch(page, wrong: list[str]) -> None:
    """Note errors of a page's scripts, files that are missing, and requests that leave."""
    near = ("file:", "data:", "blob:")
    page.on("console", lambda m: m.type == "error" and wrong.append(f"{page.url}: {m.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    # A picture that was on its way when the next page was asked for is not missing.
    left = "net::ERR_ABORTED"
    page.on("requestfailed", lambda r: r.failure == left or wrong.append(f"lacks {r.url}"))
    page.on("request", lambda r: r.url.startswith(near) or wrong.append(f"asks for {r.url}"))


def browsed(site: Path) -> list[str]:
    """Return what goes wrong on the pages people write; the reference is all of one kind."""
    names = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    written = [n for n in names if not n.startswith(("_", "reference/generated/", "genindex"))]
    wrong: list[str] = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"))
        for width, scheme in ((1280, "light"), (390, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            watch(page, wrong)
            for name in [*written, *SEARCHES.values()]:
                page.goto((site / name).as_uri())
                wrong += [f"{name} at {width}: {text}" for text in page.evaluate(TOO_WIDE)]
                theme = page.evaluate("document.documentElement.dataset.theme")
                if theme != scheme:
                    wrong.append(f"{name} is {theme} where {scheme} is asked for")
            for word, wanted in SEARCHES.items():
                page.goto(f"{(site / 'search.html').as_uri()}?q={word}")
                try:
                    page.wait_for_selector(f"#search-results a[href*='{wanted}']", timeout=20_000)
                except Exception:
                    wrong.append(f"search for {word} at {width} does not find {wanted}")
            page.close()
        browser.close()
    print(f"{len(written)} pages opened, of {len(names)}")
    return wrong


def main() -> int:
    """Build all pages anew, warnings as errors, and say what is wrong with them."""
    for folder in ("auto_gallery", "reference/generated"):  # old ones could hide a missing page
        shutil.rmtree(DOCS / folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        site = Path(*sys.argv[1:2] or [temporary, "site"]).resolve()
        options = ["-W", "--keep-going", "-j", "auto", "-q", "-d", f"{site}.doctrees"]
        subprocess.run(
            [sys.executable, "-m", "sphinx", *options, str(DOCS), str(site)], check=True
        )
        wrong = browsed(site)
    print("\n".join(wrong) or "nothing is wrong with them, and no request leaves")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
