"""What must hold of every page's HTML."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser


class Markup(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, text: str) -> None:
        """Read a page or a fragment."""
        super().__init__()
        self.ids: list[str] = []
        self.points_at: list[str] = []
        self.inline: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.tokens = 0
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids, references to them, inline code and forms."""
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.append(values["id"])
        for name in ("for", "aria-describedby", "aria-labelledby", "list"):
            self.points_at += values.get(name, "").split()
        for name in ("hx-target",):
            if values.get(name, "").startswith("#"):
                self.points_at.append(values[name][1:])
        self.inline += [name for name in values if name == "style" or name.startswith(("on", "hx-on"))]
        if tag == "style" or (tag == "script" and "src" not in values):
            self.inline.append(tag)
        if tag == "form":
            self.forms.append(values)
        if tag == "input" and values.get("name") == "csrfmiddlewaretoken":
            self.tokens += 1

    def handle_data(self, data: str) -> None:
        """Note what is read."""
        self.text.append(data)

    def faults(self) -> list[str]:
        """Return what is wrong with the page; empty when nothing is."""
        found = [f"id twice: {name}" for name, count in Counter(self.ids).items() if count > 1]
        found += [f"inline: {name}" for name in self.inline]
        found += [f"points at nothing: {name}" for name in self.points_at if name not in self.ids]
        posting = sum(form.get("method", "get").lower() == "post" for form in self.forms)
        if posting > self.tokens:
            found.append(f"{posting} posting forms, {self.tokens} tokens")
        return found
