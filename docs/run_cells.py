"""A hook of mkdocs: runs the examples of every page before the site is built.

A page whose output is not what it shows ends the build. Pictures that its examples
write become files of the site beside the page, so that `![text](name.png)` shows them.
"""

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

log = logging.getLogger("mkdocs.run_cells")
ENVIRONMENT = {"MPLBACKEND": "Agg", "JAX_TRACEBACK_FILTERING": "off"}
OPTIONS = ["-o", "NORMALIZE_WHITESPACE", "-o", "ELLIPSIS"]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = [f for f in files.documentation_pages() if ">>> " in f.content_string]
    log.info("running the examples of %d pages", len(pages))
    with ThreadPoolExecutor(2) as pool:
        for page, pictures in zip(pages, pool.map(run, pages)):
            folder = PurePosixPath(page.src_uri).parent
            for name, content in pictures.items():
                uri = str(folder / name)
                files.append(File.generated(config, uri, content=content))
    return files


def run(page: File) -> dict[str, bytes]:
    """Runs the examples of a page; the pictures that they wrote, by name."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "doctest", *OPTIONS, page.abs_src_path],
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PluginError(f"{page.src_uri}:\n{done.stdout}{done.stderr}")
        return {path.name: path.read_bytes() for path in Path(folder).glob("*.png")}
