"""HTML pages from the templates in docs/theme."""

import jinja2

from curta import __version__
from tools.docsite import reference
from tools.docsite.pages import DOCS, Page, config, relative
from tools.docsite.render import Rendered


class Templates:
    """Fills templates with pages: navigation, breadcrumbs, neighbors, downloads."""

    def __init__(self, pages: dict[str, Page], order: list[str], files: set[str]):
        loader = jinja2.FileSystemLoader(DOCS / "theme")
        self._env = jinja2.Environment(
            loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._template = self._env.get_template("page.html")
        self.pages, self.order, self.files = pages, order, files
        self.settings = config()

    def page(self, page: Page, rendered: Rendered) -> str:
        def url(path: str) -> str:
            return relative(self.pages[path].url, page.url)

        def asset(path: str) -> str:
            return relative(path, page.url)

        return self._template.render(
            page=page,
            body=rendered.body,
            headings=[h for h in rendered.headings if h[0] <= 3],
            site=self.settings,
            version=__version__,
            url=url,
            asset=asset,
            sections=self.settings["nav"],
            side=self.side(page),
            previous=self.neighbor(page, -1),
            next=self.neighbor(page, 1),
            downloads=self.downloads(page),
            pages=self.pages,
        )

    def side(self, page: Page) -> list[tuple[str, list[tuple[str, str]]]]:
        """The links at the side: groups of (title, path)."""
        if page.kind == "guide" or page.path == reference.INDEX:
            section = next(
                (s for s in self.settings["nav"] if s["title"] == page.section), None
            )
            listed = section["pages"] if section else []
            groups = [("", [(self.pages[p].title, p) for p in listed])]
        else:
            groups = []
        if page.section == "Reference":
            groups += self.reference_side(page)
        return groups

    def reference_side(self, page: Page) -> list[tuple[str, list[tuple[str, str]]]]:
        """The namespaces; the topic of a function's page comes first."""
        found = []
        if page.kind == "function":
            namespace, _, name = page.name.rpartition(".")
            for topic, names in reference.topics_of(namespace).items():
                if any(n.name == name for n in names):
                    links = [(n.name, n.path) for n in names]
                    found.append((topic or namespace, links))
        for title, names in reference.groups().items():
            links = [(n, f"{reference.folder(n)}/index.md") for n in names]
            found.append((title, links))
        return found

    def neighbor(self, page: Page, step: int) -> Page | None:
        if page.path not in self.order:
            return None
        place = self.order.index(page.path) + step
        known = 0 <= place < len(self.order)
        return self.pages[self.order[place]] if known else None

    def downloads(self, page: Page) -> list[tuple[str, str]]:
        """The page as a program and a notebook, if it has code: (label, file)."""
        names = ((".py", f"{page.slug}.py"), (".ipynb", f"{page.slug}.ipynb"))
        return [(label, n) for label, n in names if page.url + n in self.files]

    def missing(self) -> str:
        return self._env.get_template("404.html").render(site=self.settings)
