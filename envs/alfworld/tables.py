"""Facts about the ALFRED household domain that are the same in every game.

Records leave out what follows from these tables: which receptacle types accept which object types, and the
attributes that an object type always has. Types are written as in facts: lower-case with the suffix `type`.
Source: the domain of ALFRED (Shridhar et al., 2020), as used by ALFWorld (Shridhar et al., 2021).
"""

from __future__ import annotations


def _types(names: str) -> frozenset[str]:
    return frozenset(name + "type" for name in names.split())


_ACCEPTS = {
    "armchair ottoman sofa": (
        "basketball book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol"
    ),
    "bathtubbasin": "cloth dishsponge handtowel soapbar",
    "bed": "baseballbat basketball book cellphone laptop newspaper pillow tennisracket",
    "cabinet": (
        "book bowl box cd candle cloth cup dishsponge glassbottle handtowel kettle ladle mug newspaper pan "
        "peppershaker plate plunger pot saltshaker soapbar soapbottle spraybottle tissuebox toiletpaper vase "
        "wateringcan winebottle"
    ),
    "cart": (
        "candle cloth dishsponge handtowel mug plunger soapbar soapbottle spraybottle statue tissuebox toiletpaper vase"
    ),
    "coffeemachine": "mug",
    "coffeetable countertop diningtable sidetable": (
        "alarmclock apple baseballbat basketball book bowl box bread butterknife cd candle cellphone cloth "
        "creditcard cup dishsponge egg fork glassbottle handtowel kettle keychain knife ladle laptop lettuce mug "
        "newspaper pan pen pencil peppershaker plate pot potato remotecontrol saltshaker soapbar soapbottle "
        "spatula spoon spraybottle statue tennisracket tissuebox toiletpaper tomato vase watch wateringcan "
        "winebottle"
    ),
    "dresser": (
        "alarmclock basketball book bowl box cd candle cellphone cloth creditcard cup glassbottle keychain laptop "
        "mug newspaper pen pencil plate remotecontrol spraybottle statue tennisracket tissuebox toiletpaper vase "
        "watch wateringcan winebottle"
    ),
    "desk": (
        "alarmclock basketball book bowl box cd candle cellphone cloth creditcard cup glassbottle keychain laptop "
        "mug newspaper pen pencil plate remotecontrol soapbottle spraybottle statue tennisracket tissuebox "
        "toiletpaper vase watch wateringcan winebottle"
    ),
    "drawer": (
        "book butterknife cd candle cellphone cloth creditcard dishsponge fork handtowel keychain knife ladle "
        "newspaper pen pencil peppershaker remotecontrol saltshaker soapbar soapbottle spatula spoon spraybottle "
        "tissuebox toiletpaper watch wateringcan"
    ),
    "fridge": "apple bowl bread cup egg glassbottle lettuce mug pan plate pot potato tomato winebottle",
    "garbagecan": (
        "apple bread cd cloth dishsponge egg handtowel lettuce newspaper pen pencil potato soapbar soapbottle "
        "spraybottle tissuebox toiletpaper tomato winebottle"
    ),
    "handtowelholder": "handtowel",
    "laundryhamper": "cloth",
    "microwave": "apple bowl bread cup egg glassbottle mug plate potato tomato",
    "safe": "cd cellphone creditcard keychain statue vase watch",
    "shelf": (
        "alarmclock book bowl box cd candle cellphone cloth creditcard cup dishsponge glassbottle handtowel kettle "
        "keychain mug newspaper pen pencil peppershaker plate pot remotecontrol saltshaker soapbar soapbottle "
        "spraybottle statue tissuebox toiletpaper vase watch wateringcan winebottle"
    ),
    "sinkbasin": (
        "apple bowl butterknife cloth cup dishsponge egg fork glassbottle handtowel kettle knife ladle lettuce mug "
        "pan plate pot potato soapbar spatula spoon tomato"
    ),
    "stoveburner": "kettle pan pot",
    "toaster": "",
    "toilet": "candle cloth dishsponge handtowel newspaper soapbar soapbottle spraybottle tissuebox toiletpaper",
    "toiletpaperhanger": "toiletpaper",
    "towelholder": "towel",
    "tvstand": "tissuebox",
}

CAN_CONTAIN: dict[str, frozenset[str]] = {
    receptacle + "type": _types(objects)
    for receptacles, objects in _ACCEPTS.items()
    for receptacle in receptacles.split()
}
"""Receptacle type -> object types that may be put there. A type that is absent accepts nothing."""

NOT_PICKUPABLE = _types(
    "bathtub blinds chair curtains desklamp floorlamp footstool houseplant laundryhamperlid lightswitch mirror "
    "painting poster showerdoor showerglass sink stoveknob television window"
)
PICKUPABLE = frozenset[str]().union(*CAN_CONTAIN.values()) | _types("boots papertowelroll scrubbrush teddybear")
"""Object types that can be carried. (Footstools vary from game to game; the tables count them as fixed.)"""

TOGGLEABLE = _types("desklamp floorlamp")
CLEANABLE = _types(
    "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle lettuce mug pan plate pot potato soapbar "
    "spatula spoon tomato"
)
HEATABLE = _types("apple bread cup egg mug plate potato tomato")
COOLABLE = _types("apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle")
SLICEABLE = _types("apple bread egg lettuce potato tomato")
RECEPTACLE_OBJECTS = _types("bowl box cup mug pan plate pot")
"""Object types that may hold other objects; predicate `isreceptacleobject`."""

OBJECT_TYPES = PICKUPABLE | NOT_PICKUPABLE

SINK_TYPE = "sinkbasintype"
MICROWAVE_TYPE = "microwavetype"
FRIDGE_TYPE = "fridgetype"
KNIFE_TYPES = _types("knife butterknife")
