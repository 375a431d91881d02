"""Drawings for products that have no picture on the web: a shape and a colour for each id."""

from __future__ import annotations

import zlib

from agentgym.envs.webshop.catalogue import Product
from agentgym.envs.webshop.html import escape


def draw(product: Product) -> str:
    """An SVG image with the first letter of the product's title; the same product always looks the same."""
    mark = zlib.crc32(product.asin.encode("utf-8", "replace"))
    hue, turn, round_ = mark % 360, mark // 360 % 90, 8 + mark // 32400 % 43
    letter = escape(next((char for char in product.title if char.isalnum()), "•").upper())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200">'
        f'<rect width="200" height="200" fill="hsl({hue} 45% 92%)"/>'
        f'<rect x="45" y="45" width="110" height="110" rx="{round_}" fill="hsl({hue} 45% 62%)" '
        f'transform="rotate({turn} 100 100)"/>'
        '<text x="100" y="122" font-family="sans-serif" font-size="64" font-weight="700" text-anchor="middle" '
        f'fill="#fff">{letter}</text></svg>'
    )
