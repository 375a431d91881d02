"""Reads pages as the original does: the visible texts, and the elements that scripts rely on."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"input", "img", "br", "hr", "link", "meta"}
BLANK = " \t\n\f\r"


class PageReader(HTMLParser):
    """Collects visible texts and controls of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.controls: list[tuple[object, ...]] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self._text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._flush()
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        classes = (found.get("class") or "").split()
        if tag == "form":
            self.controls.append((tag, found.get("method"), found.get("action")))
        elif tag == "input":
            self.controls.append((tag, *(found.get(name) for name in ("type", "id", "name", "value", "data-url"))))
        elif tag == "button":
            self.controls.append((tag, found.get("type"), tuple(classes)))
        elif tag == "a":
            self.controls.append((tag, tuple(classes), found.get("href")))
        elif tag == "img":
            self.controls.append((tag, found.get("id"), tuple(classes), found.get("src")))
        elif tag == "label":
            self.controls.append((tag, found.get("for")))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._flush()
        # The recorded pages close some headings with another number.
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_comment(self, data: str) -> None:
        self._flush()

    def close(self) -> None:
        super().close()
        self._flush()

    def _flush(self) -> None:
        text, self._text = self._text, ""
        if not text or {"style", "script", "head"} & set(self._open):
            return
        if not text.strip(BLANK):
            if "\n" in text:
                return
            text = " "
        self.texts.append(text)
