"""A hook of mkdocs: runs the examples of every page before the site is built.

A page whose output is not what it shows ends the build; what it shortens by `...` is
shown as it was printed. Pictures that its examples write become files of the site
beside the page, so that `![text](name.png)` shows them.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from run_page import with_outputs

log = logging.getLogger("mkdocs.run_cells")
ENVIRONMENT = {"MPLBACKEND": "Agg", "JAX_TRACEBACK_FILTERING": "off"}
RUN_PAGE = Path(__file__).with_name("run_page.py")
OUTPUTS = "outputs.json"
_outputs: dict[str, list[str]] = {}  # by the path of a page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = [f for f in files.documentation_pages() if ">>> " in f.content_string]
    log.info("running the examples of %d pages", len(pages))
    with ThreadPoolExecutor(2) as pool:
        for page, (outputs, pictures) in zip(pages, pool.map(run, pages)):
            _outputs[page.src_uri] = outputs
            folder = PurePosixPath(page.src_uri).parent
            for name, content in pictures.items():
                uri = str(folder / name)
                files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    outputs = _outputs.get(page.file.src_uri)
    return markdown if outputs is None else with_outputs(markdown, outputs)


def run(page: File) -> tuple[list[str], dict[str, bytes]]:
    """Runs the examples of a page: what they print, and their pictures by name."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, RUN_PAGE, page.abs_src_path, OUTPUTS],
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PluginError(f"{page.src_uri}:\n{done.stdout}{done.stderr}")
        outputs = json.loads((Path(folder) / OUTPUTS).read_text())
        pictures = {p.name: p.read_bytes() for p in Path(folder).glob("*.png")}
        return outputs, pictures
