"""Words of which the generated catalogue is made: departments, kinds of products, attributes and option values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Department:
    """One department of the generated shop.

    Attributes:
        name: its name.
        weight: how many of nine products are its.
        root: first levels of its category paths.
        kinds: kinds of products: query, shelf (further levels of the path), and the nouns of a title, last one first.
        attributes: attributes that its products can have.
        groups: option groups that its products can have.
        materials: words for descriptions and titles.
    """

    name: str
    weight: int
    root: tuple[str, ...]
    kinds: tuple[tuple[str, str, str], ...]
    attributes: tuple[str, ...]
    groups: tuple[str, ...]
    materials: tuple[str, ...]


def _attributes(text: str) -> tuple[str, ...]:
    return tuple(" ".join(piece.split()) for piece in text.split(","))


DEPARTMENTS = (
    Department(
        "beauty",
        2,
        ("Beauty & Personal Care",),
        (
            ("face moisturizers", "Skin Care › Face › Creams", "face cream"),
            ("Shampoo", "Hair Care › Shampoo", "hair shampoo"),
            ("hair conditioners", "Hair Care › Conditioner", "hair conditioner"),
            ("lip balms", "Skin Care › Lip Care", "lip balm"),
            ("nail polish", "Foot, Hand & Nail Care › Nail Art", "nail polish"),
            ("makeup brushes", "Tools & Accessories › Makeup Brushes", "makeup brush set"),
            ("body lotions", "Skin Care › Body › Lotions", "body lotion"),
            ("Perfumes", "Fragrance › Women's", "perfume spray"),
            ("toothbrushes", "Oral Care › Toothbrushes", "toothbrush"),
            ("sunscreen", "Skin Care › Sun Care", "sunscreen lotion"),
            ("eye shadows", "Makeup › Eyes › Eyeshadow", "eyeshadow palette"),
            ("bath sponges", "Bath & Shower › Bath Accessories", "bath sponge"),
        ),
        _attributes(
            "cruelty free, paraben free, sulfate free, long lasting, dry skin, sensitive skin, oily skin, hair "
            "growth, hair treatment, dead skin, fine lines, natural ingredients, coconut oil, tea tree, "
            "hyaluronic acid, easy to apply, easy to clean, travel size, fragrance free, alcohol free, dark "
            "circles, damaged hair, anti aging, oral hygiene, fresh breath, nail art, high quality, leak proof"
        ),
        ("scent", "size", "color"),
        ("aloe", "shea butter", "argan oil", "bamboo", "rose water", "charcoal"),
    ),
    Department(
        "electronics",
        2,
        ("Electronics",),
        (
            ("headphones", "Headphones › Over-Ear Headphones", "headphones"),
            ("Bluetooth speakers", "Portable Audio & Video › Speakers", "speaker"),
            ("phone cases", "Cell Phones & Accessories › Cases", "phone case"),
            ("HDMI cables", "Accessories & Supplies › Cables › HDMI", "hdmi cable"),
            ("screen protectors", "Computers & Accessories › Tablet Accessories", "screen protector"),
            ("tripods", "Camera & Photo › Accessories › Tripods", "camera tripod"),
            ("smartwatch bands", "Wearable Technology › Accessories", "watch band"),
            ("Chargers", "Cell Phones & Accessories › Chargers", "wall charger"),
            ("keyboards", "Computers & Accessories › Keyboards", "computer keyboard"),
            ("binoculars", "Camera & Photo › Binoculars & Scopes", "binoculars"),
            ("security cameras", "Camera & Photo › Video Surveillance", "security camera"),
            ("remote controls", "Television & Video › Accessories", "remote control"),
        ),
        _attributes(
            "noise cancelling, fast charging, easy to install, easy to use, high speed, gold plated, plug and "
            "play, hands free, water resistant, wireless charging, quick release, carrying case, stereo sound, "
            "tempered glass, light weight, heavy duty, long lasting, high definition, night vision, motion "
            "detection, batteries included, aluminum alloy, high resolution, dust proof, ultra hd, usb port, case "
            "cover, output protection"
        ),
        ("color", "size", "style"),
        ("aluminum", "silicone", "braided nylon", "tempered glass", "carbon", "leather"),
    ),
    Department(
        "garden",
        2,
        ("Home & Kitchen",),
        (
            ("console tables", "Furniture › Living Room Furniture › Tables", "console table"),
            ("Curtains", "Home Décor › Window Treatments", "window curtains"),
            ("throw pillows", "Bedding › Decorative Pillows", "throw pillow cover"),
            ("area rugs", "Home Décor › Area Rugs", "area rug"),
            ("desk lamps", "Lighting › Lamps & Shades › Desk Lamps", "desk lamp"),
            ("bar stools", "Furniture › Kitchen & Dining Room Furniture", "bar stool"),
            ("storage ottomans", "Furniture › Living Room Furniture › Ottomans", "storage ottoman"),
            ("wall art", "Wall Art › Posters & Prints", "wall art print"),
            ("Candles", "Home Décor › Candles", "candle"),
            ("shoe racks", "Storage & Organization › Closet Storage", "shoe rack"),
            ("bed frames", "Furniture › Bedroom Furniture › Beds", "bed frame"),
            ("table runners", "Kitchen & Dining › Table Linens", "table runner"),
        ),
        _attributes(
            "easy to assemble, machine washable, living room, dining room, solid wood, storage space, space "
            "saving, heavy duty, mid century, ready to hang, super soft, queen size, king size, twin size, memory "
            "foam, stainless steel, non slip, white item, easy clean, wood frame, glass door, lead free, soy wax, "
            "eco friendly, faux leather, height adjustable, spot clean, high density"
        ),
        ("color", "size", "item shape"),
        ("oak", "pine", "linen", "velvet", "cotton", "steel"),
    ),
    Department(
        "fashion",
        2,
        ("Clothing, Shoes & Jewelry",),
        (
            ("women's dresses", "Women › Clothing › Dresses", "dress"),
            ("men's dress shirts", "Men › Clothing › Shirts", "dress shirt"),
            ("Women's Sweaters", "Women › Clothing › Sweaters › Pullovers", "pullover sweater"),
            ("men's shorts", "Men › Clothing › Shorts", "shorts"),
            ("women's sandals", "Women › Shoes › Sandals", "sandals"),
            ("men's loafers & slip-ons", "Men › Shoes › Loafers & Slip-Ons", "loafers"),
            ("jackets", "Women › Clothing › Coats, Jackets & Vests", "jacket"),
            ("men's t-shirts", "Men › Clothing › Shirts › T-Shirts", "t shirt"),
            ("women's jumpsuits", "Women › Clothing › Jumpsuits", "jumpsuit"),
            ("boots", "Women › Shoes › Boots › Ankle & Bootie", "ankle boots"),
            ("men's underwear", "Men › Clothing › Underwear › Briefs", "briefs"),
            ("Leggings", "Women › Clothing › Leggings", "yoga leggings"),
        ),
        _attributes(
            "machine wash, hand wash, long sleeve, short sleeve, slim fit, loose fit, relaxed fit, classic fit, "
            "elastic waist, high waist, rubber sole, rubber outsole, non slip, quality materials, polyester "
            "spandex, cotton spandex, daily wear, unique design, moisture wicking, button closure, drawstring "
            "closure, tummy control, arch support, memory foam, steel toe, faux fur, wide leg, dry clean"
        ),
        ("color", "size"),
        ("cotton", "polyester", "denim", "wool", "linen", "leather"),
    ),
    Department(
        "grocery",
        1,
        ("Grocery & Gourmet Food",),
        (
            ("Coffee", "Beverages › Coffee › Ground Coffee", "ground coffee"),
            ("tea", "Beverages › Tea › Herbal", "herbal tea"),
            ("granola bars", "Snack Foods › Bars › Granola", "granola bars"),
            ("popcorn", "Snack Foods › Popcorn", "popcorn"),
            ("protein powders", "Beverages › Protein Drinks", "protein powder"),
            ("trail mix", "Snack Foods › Nut Clusters & Trail Mix", "trail mix"),
            ("hot sauces", "Sauces, Gravies & Marinades › Hot Sauce", "hot sauce"),
            ("chocolates", "Candy & Chocolate › Chocolate", "chocolate"),
            ("Pasta", "Pasta & Noodles › Penne", "penne pasta"),
            ("dried fruits", "Produce › Dried Fruits", "dried fruit"),
            ("meat snacks", "Meat & Seafood › Jerky", "beef jerky"),
        ),
        _attributes(
            "gluten free, sugar free, dairy free, fat free, low carb, low calorie, low sodium, non gmo, usda "
            "organic, soy free, nut free, plant based, keto friendly, high protein, certified organic, artificial "
            "colors, artificial flavors, individually wrapped, ready to eat, kosher certified, great gift, gift "
            "basket, whole grain, high fructose, natural flavors, caffeine free, dietary fiber, resealable bag"
        ),
        ("flavor name", "size"),
        ("cocoa", "almond", "oat", "sea salt", "honey", "cinnamon"),
    ),
)

_HUES = "black white red blue green pink grey navy purple yellow orange brown beige teal silver gold wine khaki"
HUES = tuple(_HUES.split())
SHADES = ("", "", "", "dark ", "light ", "Dark ", "Light ", "bright ")
SCENTS = ("lavender", "Vanilla", "rose", "coconut", "unscented", "citrus", "green tea", "mint")
FLAVOURS = (
    "chocolate",
    "Vanilla",
    "strawberry",
    "peanut butter",
    "salted caramel",
    "apple cinnamon",
    "lemon",
    "original",
)
STYLES = ("Classic", "with stand", "2-pack", "pro", "mini", "deluxe", "single", "with remote")
SHAPES = ("Rectangular", "round", "square", "oval", "runner")
CLOTHES = ("x-small", "small", "medium", "large", "x-large", "xx-large", "3x-large", "4x-large")
_BRANDS = (
    "Albera Bruntis Calvero Dorvane Elmora Fenwick Galdora Hestia Iverna Jorvik Kelmara Lumero Mavora Nordane Olvera "
    "Pelloro Quillon Rivena Solvane Tarvik Umbero Velmora Wistan Yarrow Zelkova Brisco Corvane Delmar Estrava Farrow"
)
BRANDS = tuple(_BRANDS.split())
ADJECTIVES = (
    *("Premium", "Portable", "Modern", "Classic", "Large", "Lightweight", "Soft", "Durable", "Compact", "Stylish"),
    *("Vintage", "Professional", "Adjustable", "Natural", "Ultra", "Elegant", "Everyday", "Handmade", "Smooth", "Cozy"),
)
USERS = ("Women", "Men", "Kids", "Adults", "Girls", "Boys")
PLACES = ("Home", "Office", "Travel", "Outdoor", "Kitchen", "School", "Party", "Gift")
