"""A hook of mkdocs: a page for each program in examples/, from what its run left.

`make gallery` runs the programs and leaves their pictures and `gallery.json` (times and
what they print) in examples/out. The text of a page is the program's docstring.
"""

import ast
import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

EXAMPLES = Path(__file__).parents[1] / "examples"
OUT = EXAMPLES / "out"
ROW = re.compile(r"^\| (\[.*\]\((\w+)\.md\)) \|", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    runs = OUT / "gallery.json"
    if not runs.exists():
        raise PluginError("no pictures in examples/out: run `make gallery` first")
    known = json.loads(runs.read_text())
    for path in sorted(EXAMPLES.glob("*.py")):
        run = known.get(path.stem)
        text = page(path.read_text(), run)
        files.append(File.generated(config, f"gallery/{path.stem}.md", content=text))
        for picture in run["pictures"] if run else ():
            content = (OUT / picture).read_bytes()
            files.append(File.generated(config, f"gallery/{picture}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The list of programs with a small picture of each."""
    if page.file.src_uri != "gallery/index.md":
        return markdown
    known = json.loads((OUT / "gallery.json").read_text())

    def with_picture(row: re.Match[str]) -> str:
        pictures = known.get(row[2], {}).get("pictures", ())
        return "".join(
            [
                f"| {row[1]}",
                *(f'<br><img src="{p}" alt="" width="180">' for p in pictures[:1]),
                " |",
            ]
        )

    return ROW.sub(with_picture, markdown)


def page(source: str, run: dict | None) -> str:
    """The page of a program; without pictures and times if it was not run."""
    title, _, text = ast.get_docstring(ast.parse(source)).partition("\n")
    heading = title.partition(":")[0].rstrip(".")
    text = text.strip("\n")  # which may begin with an indented line
    names = run["pictures"] if run else ()
    pictures = "\n\n".join(f"![{heading}]({name})" for name in names)
    return f"""# {heading}

{title}

{pictures}

{text}

{result(run)}

## The program

```python
{source.strip()}
```
"""


def result(run: dict | None) -> str:
    """How long a program took, and what it printed."""
    if run is None:
        return "It was not run when this page was made: `make gallery` runs it."
    return f"{times(run)} It printed:\n\n```text\n{run['output'].strip()}\n```"


def times(run: dict) -> str:
    """How long the whole process took, imports and compiling too.

    Other work on the machine changes the time, and the processors' time little.
    """
    ours = f"{run['seconds']:.1f} s ({run['busy']:.1f} s of processors' time)"
    text = f"The program took {ours} on {run['processors']} processors"
    if run["jax_seconds"] is None:
        return f"{text}."
    return (
        f"{text}, and {run['jax_seconds']:.1f} s ({run['jax_busy']:.1f} s) over JAX,"
        " one after the other."
    )
