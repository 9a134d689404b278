"""Run the examples of the written pages while the site is built.

A page whose output is not what it shows ends the build. An output that a page shortens
with `...` is shown as it was printed. Figures that examples write appear in the site,
drawn for light and dark pages.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from tools.docsite.pages import DOCS, Page, SiteError
from tools.docsite.run_page import with_outputs

ENVIRONMENT = {"MPLBACKEND": "Agg", "JAX_TRACEBACK_FILTERING": "off"}
RUN_PAGE = Path(__file__).with_name("run_page.py")
OUTPUTS = "outputs.json"


def run_all(pages: Iterable[Page]) -> dict[str, bytes]:
    """Run pages with examples, insert what they print, and return their figures."""
    chosen = [p for p in pages if ">>> " in p.text and (DOCS / p.path).exists()]
    pictures: dict[str, bytes] = {}
    with ThreadPoolExecutor(2) as pool:
        for page, (outputs, made) in zip(chosen, pool.map(run, chosen)):
            page.text = with_outputs(page.text, outputs)
            folder = PurePosixPath(page.path).parent
            pictures |= {str(folder / name): data for name, data in made.items()}
    return pictures


def run(page: Page) -> tuple[list[str], dict[str, bytes]]:
    """Return what the examples of a page print, and the figures they write."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, RUN_PAGE, DOCS / page.path, OUTPUTS],
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SiteError(f"{page.path}:\n{done.stdout}{done.stderr}")
        outputs = json.loads((Path(folder) / OUTPUTS).read_text())
        pictures = {p.name: p.read_bytes() for p in Path(folder).glob("*.png")}
        return outputs, pictures
