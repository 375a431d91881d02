"""The pages of the simulated site as HTML: the texts of `nodes`, with ids, classes, controls and links for scripts.

Forms and links go to ``/`` with the state in the query, as on the original's simulated site. The markup is our own.
Invariant: every text from the catalogue or the visitor is escaped; the visible texts are those of `NodeMaker.nodes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote_plus

from .catalogue import Product
from .machine import Visit
from .nodes import NO_ATTRIBUTES, options_json
from .page import SUB_PAGES, Page

_SAFE = "!$'()*,/:;?@"  # what Werkzeug leaves as it is in a query
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"})
_BLOCKS: Mapping[str, str] = dict(zip(SUB_PAGES, ("description", "bulletpoints", "reviews", "attributes"), strict=True))

# Parts of the last page: id of the heading -> its text, for what was bought and for the goal, which stays hidden.
_BOUGHT = {
    "purchased_attrs": "attrs",
    "purchased-category": "category",
    "purchased-query": "query",
    "purchased-pc": "product category",
}
_GOAL = {
    "goal-asin": "asin",
    "goal-options": "options",
    "goal-attrs": "attrs",
    "goal-price": "price upper",
    "goal-instruction-text": "instuction text",
    "goal-category": "category",
    "goal-pc": "product category",
    "goal-query": "query",
}


def escape(text: str) -> str:
    """Text that is safe between tags and in quoted attributes."""
    return text.translate(_ESCAPES)


def address(session: str, **parameters: str | int | Iterable[str]) -> str:
    """The address of a page, escaped for an attribute.

    Args:
        session: name of the session.
        **parameters: the query; a value that is no text or number stands for several ones.
    """
    pairs = [("session_id", session)]
    for name, value in parameters.items():
        if isinstance(value, str | int):
            pairs.append((name, str(value)))
        else:
            pairs += [(name, one) for one in value]
    query = "&".join(f"{name}={quote_plus(value, _SAFE, 'utf-8', 'replace')}" for name, value in pairs)
    return escape(f"/?{query}")


def write_html(visit: Visit) -> str:
    """The page that a visitor sees, as HTML."""
    page, product = visit.page, visit.shown
    if page.kind == "start":
        body = _start(visit)
    elif page.kind == "results":
        body = _results(visit)
    elif product is None:
        raise AssertionError("a page without a product")
    elif page.kind == "item":
        body = _item(visit, product)
    elif page.kind == "sub":
        body = _sub_page(visit, product)
    else:
        body = _done(page, product)
    return (
        '<!DOCTYPE html>\n<html>\n<head><meta charset="utf-8"><link rel="icon" href="data:,"></head>\n'
        f'<body>\n<div class="container">\n{body}\n</div>\n</body>\n</html>'
    )


def _form(action: str, label: str, classes: str) -> str:
    button = f'<button type="submit" class="{classes}">{escape(label)}</button>'
    return f'<form method="post" action="{action}">{button}</form>'


def _instruction(visit: Visit, words: str) -> str:
    return (
        f'<div id="instruction-text" class="text-center"><h4>{words}<br>{escape(visit.goal.instruction)}</h4></div>\n'
    )


def _head(visit: Visit) -> str:
    return _instruction(visit, "Instruction:") + _form(address(visit.session), "Back to Search", "btn btn-success")


def _start(visit: Visit) -> str:
    return (
        '<div id="logo" class="text-center"><h2>WebShop</h2></div>\n'
        + _instruction(visit, "Instruction: ")
        + f'<form role="form" id="form-buscar" method="post" action="{address(visit.session)}">'
        '<input id="search_input" class="form-control" type="text" name="search_query" placeholder="Search..." '
        "required>"
        '<button class="btn btn-success" type="submit">Search</button></form>'
    )


def _results(visit: Visit) -> str:
    page = visit.page
    parts = [_head(visit), f"<h3>Page {page.number} (Total results: {page.total})</h3>"]
    turns = [("< Prev", -1)] if page.number > 1 else []
    if page.more or not visit.store.fixed:
        turns.append(("Next >", 1))
    for label, by in turns:
        action = address(visit.session, keywords=page.keywords, page=page.number + by)
        parts.append(_form(action, label, "btn btn-primary"))
    for item in page.items:
        product = visit.store.products[item]
        link = address(visit.session, asin=product.asin, keywords=page.keywords, page=page.number, options="{}")
        parts.append(
            f'<div class="list-group-item"><img src="{escape(product.image)}" class="result-img">'
            '<div class="searched-product">'
            f'<h4 class="product-asin"><a class="product-link" href="{link}">{escape(product.asin)}</a></h4>'
            f'<h4 class="product-title">{escape(product.title)}</h4>'
            f'<h5 class="product-price">{escape(product.price_text)}</h5></div></div>'
        )
    return "\n".join(parts)


def _item_address(visit: Visit, product: Product, options: Mapping[str, str], **more: str) -> str:
    page = visit.page
    return address(
        visit.session,
        asin=product.asin,
        keywords=page.keywords,
        page=page.number,
        **more,
        options=str(dict(options)),
    )


def _item(visit: Visit, product: Product) -> str:
    page = visit.page
    back = address(visit.session, keywords=page.keywords, page=page.number)
    parts = [_head(visit), _form(back, "< Prev", "btn btn-primary")]
    parts.append(f'<img id="product-image" src="{escape(product.image)}" class="item-page-img">')
    for group, values in product.options.items():
        parts.append(f'<h4>{escape(group)}</h4>\n<div class="radio-toolbar">')
        parts += [_radio(visit, product, group, number, value) for number, value in enumerate(values)]
        parts.append("</div>")
    parts.append(f"<h2>{escape(product.title)}</h2>")
    parts.append(f"<h4>Price: {escape(product.price_text)}</h4>\n<h4>Rating: N.A.</h4>")
    for name in SUB_PAGES if visit.store.show_attrs else SUB_PAGES[:-1]:
        action = _item_address(visit, product, page.options, sub_page=name)
        parts.append(f'<div name="{_BLOCKS[name]}">{_form(action, name, "btn btn-primary")}</div>')
    buy = address(visit.session, asin=product.asin, options=str(dict(page.options)))
    parts.append(_form(buy, "Buy Now", "btn btn-lg purchase"))
    return "\n".join(parts)


def _radio(visit: Visit, product: Product, group: str, number: int, value: str) -> str:
    target = _item_address(visit, product, {**visit.page.options, group: value})
    name = f"radio_{escape(group)}{number}"
    checked = " checked" if visit.store.fixed and visit.page.options.get(group) == value else ""
    return (
        f'<input type="radio" id="{name}" name="{escape(group)}" value="{escape(value)}" data-url="{target}"{checked}>'
        f'<label for="{name}">{escape(value)}</label>'
    )


def _sub_page(visit: Visit, product: Product) -> str:
    sub = visit.page.sub
    back = _item_address(visit, product, visit.page.options)
    parts = [_head(visit), _form(back, "< Prev", "btn btn-primary")]
    parts.append(f'<div name="{_BLOCKS[sub] if sub != "Attributes" else "description"}">')
    if sub == "Description":
        parts.append(f'<p class="product-info">{escape(product.description)}</p>')
    elif sub == "Features":
        features = [f'<li><p class="product-info"> {escape(bullet)}</p></li>' for bullet in product.bullets]
        parts += ["<ul>", *features, "</ul>"]
    elif sub == "Attributes":
        attributes = product.attributes or NO_ATTRIBUTES
        parts += ["<ul>", *(f'<li><p class="attribute"> {escape(one)}</p></li>' for one in attributes), "</ul>"]
        parts.append(f'<h5 class="product-category">{escape(product.category)}</h5>')
        parts.append(f'<h5 class="product-query">{escape(product.query)}</h5>')
        parts.append(f'<h5 class="product-product_category">{escape(product.product_category)}</h5>')
    parts.append("</div>")
    return "\n".join(parts)


def _done(page: Page, product: Product) -> str:
    def heading(name: str, text: str, value: str) -> str:
        return f'<h4 id="{name}">{text}<pre>{escape(value)}</pre></h4>'

    parts = ['<div id="thankyou" class="text-center"><h1>Thank you for shopping with us!</h1></div>']
    parts.append('<div id="stats" class="text-center">\n<h3 align="mturk_code">Your code: </h3>')
    # No line break after the words in brackets: it would be part of what is visible.
    parts.append('<pre>None</pre> (Paste it in your MTurk interface.)<div style="display:none">\n<h2>Purchased</h2>')
    parts.append(heading("asin", "asin", product.asin))
    parts.append(heading("options", "options", options_json(page.options)))
    parts += [heading(name, text, "None") for name, text in _BOUGHT.items()]
    parts.append("<h2>Target</h2>")
    parts += [heading(name, text, "") for name, text in _GOAL.items()]
    parts.append('<h4>Goal <div id="goal"><pre>None</pre></div></h4>\n<h2>Reward</h2>\n</div>')
    parts.append(f'<h3 id="reward">Your score (min 0.0, max 1.0)<pre>{page.reward!r}</pre></h3>')
    parts.append('<h4 hidden>Reward Details <div id="reward_info"><pre>None</pre></div></h4>\n</div>')
    return "\n".join(parts)
