"""Build the site as its readers get it, then check it: links, network, search, small screens.

``python .ci/site.py`` builds into a temporary folder, ``python .ci/site.py FOLDER`` into that one.
Pages are opened from the file system in Chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Written beside the pages by the build; what is left of an older one could hide a missing page.
GENERATED = ("auto_gallery", "reference/generated")
# A word of the site, and a page that a search for it has to find.
SEARCHES = {
    "shrinkage": "reference/generated/fairpca.FairPCA.html",
    "certificate": "reference/generated/fairpca.Certificate.html",
}
# Pages that are opened in the browser, where they exist.
OPENED = (
    "index.html",
    "start/python.html",
    "start/terminal.html",
    "guide/index.html",
    "auto_gallery/index.html",
    "auto_gallery/plot_faces.html",
    "theory/dual.html",
    "methods/index.html",
    "reference/index.html",
    "reference/command_line.html",
    "reference/generated/fairpca.FairPCA.html",
    "whats_new.html",
    "contributing.html",
)
# Where a page would scroll sideways, or text leaves the screen. Code, tables and formulas scroll
# inside their own frame.
TOO_WIDE = """() => {
  const wide = (e) => e.getBoundingClientRect().right > window.innerWidth + 1;
  const framed = (e) => e.closest("pre, table, .math, .sd-card, dialog, .bd-sidebar-secondary");
  const found = [...document.querySelectorAll(".bd-main :is(p, li, dt, dd, h1, h2, h3, img)")];
  const texts = found.filter((e) => wide(e) && !framed(e)).map((e) => e.outerHTML.slice(0, 80));
  const page = document.documentElement.scrollWidth - window.innerWidth;
  return page > 0 ? [`${page} pixels`, ...texts] : texts;
}"""


class Page(HTMLParser):
    """What a page offers and asks for: anchors, links, and files that a browser loads itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        """Note the anchor and the addresses of an element."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif "href" in found:
            self.loaded.append(found["href"])
        self.loaded += [found[name] for name in ("src", "data", "poster") if name in found]
        self.loaded += [part.split()[0] for part in found.get("srcset", "").split(",") if part]


def problems(site: Path) -> list[str]:
    """Return what is wrong with the links and files of the pages."""
    files = sorted(site.rglob("*.html"))
    # The theme keeps templates beside its style sheets.
    pages = {path: Page(path) for path in files if "_static" not in path.parts}
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    wrong.append(f"{name} loads {address}")
                continue
            target = path
            if parts.path:
                target = Path(path.parent, unquote(parts.path)).resolve()
            if not target.is_file():
                wrong.append(f"{name} links to {address}, which is not there")
            elif parts.fragment and target in pages and address in page.links:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors | {"", "top"}:
                    wrong.append(f"{name} links to {address}, which has no such place")
    for path in sorted(site.rglob("*.css")):
        for address in re.findall(r"url\(\s*['\"]?([^'\")]+)", path.read_text("utf-8")):
            parts = urlsplit(address)
            there = parts.scheme == "data" or Path(path.parent, unquote(parts.path)).exists()
            if parts.netloc or not there:
                wrong.append(f"{path.relative_to(site)} loads {address}")
    return wrong


def watch(page, wrong: list[str]) -> None:
    """Note errors of a page's scripts, and requests that leave this machine."""
    page.on("console", lambda m: m.type == "error" and wrong.append(f"{page.url}: {m.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))

    def asked(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            wrong.append(f"{page.url} asks for {request.url}")

    page.on("request", asked)


def browsed(site: Path) -> list[str]:
    """Return what goes wrong where the pages are read, with a browser and no server."""
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"))
        for width, scheme in ((1280, "light"), (390, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            watch(page, wrong)
            for name in OPENED:
                if not (site / name).exists():
                    continue
                where = f"{name} at {width}"
                page.goto((site / name).as_uri())
                for text in page.evaluate(TOO_WIDE):
                    wrong.append(f"{where} is too wide: {text}")
                theme = page.evaluate("document.documentElement.dataset.theme")
                if theme != scheme:
                    wrong.append(f"{where} is {theme} where {scheme} is asked for")
            for word, wanted in SEARCHES.items():
                where = f"search for {word} at {width}"
                page.goto(f"{(site / 'search.html').as_uri()}?q={word}")
                try:
                    page.wait_for_selector(f"#search-results a[href*='{wanted}']", timeout=20_000)
                except Exception:
                    wrong.append(f"{where} does not find {wanted}")
            page.close()
        browser.close()
    return wrong


def build(site: Path) -> None:
    """Build all pages anew, warnings as errors."""
    for folder in GENERATED:
        shutil.rmtree(DOCS / folder, ignore_errors=True)
    options = ["-W", "--keep-going", "-j", "auto", "-q", "-d", f"{site}.doctrees"]
    subprocess.run([sys.executable, "-m", "sphinx", *options, str(DOCS), str(site)], check=True)


def main() -> int:
    """Build, check, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where the site is put")
    parser.add_argument("--no-build", action="store_true", help="check what is in FOLDER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        site = (options.folder or Path(temporary, "site")).resolve()
        if not options.no_build:
            build(site)
        wrong = problems(site) + browsed(site)
        pages = len(list(site.rglob("*.html")))
    print("\n".join(wrong) or f"{pages} pages: every link leads somewhere, no request leaves")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
