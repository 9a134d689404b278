"""The changelog as a page, and as a feed (RSS) with an item for each release."""

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from tools.docsite.pages import ROOT, Page

RELEASE = re.compile(r"^## (.+)$", re.MULTILINE)


def page() -> Page:
    text = (ROOT / "CHANGELOG.md").read_text()
    text = text.replace("](docs/", "](")
    return Page("changelog.md", text, "Reference", source="CHANGELOG.md")


def rss(name: str, description: str) -> str:
    """The releases that the changelog lists."""
    text = (ROOT / "CHANGELOG.md").read_text()
    parts = RELEASE.split(text)
    items = [
        f"<item><title>{escape(name)} {escape(title)}</title>"
        f'<guid isPermaLink="false">{escape(name)}-{escape(title)}</guid>'
        f"<link>changelog/</link>"
        f"<description>{escape(body.strip()[:4000])}</description></item>"
        for title, body in zip(parts[1::2], parts[2::2])
    ]
    now = format_datetime(datetime.now(UTC))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>'
        f"<title>{escape(name)} releases</title><link>changelog/</link>"
        f"<description>{escape(description)}</description>"
        f"<lastBuildDate>{now}</lastBuildDate>{''.join(items)}</channel></rss>\n"
    )
