"""What the rooms of ALFWorld hold: statistics measured on its train split, by kind of room.

The generator draws rooms from these tables and the seeker derives from them where a type of object is likely to be.
They are frequencies over the 108 scenes (27 a kind) and the 3,553 games of the train split, not a list of any scene or
game; types that are rare or almost never in a receptacle are left out. The invariant, checked while the tables are
read: every receptacle row counts 27 scenes, and every object row names receptacle types by the codes of ``CODES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym.errors import DataError

SCENES = 27  # scenes a kind of room in the train split

CODES: Mapping[str, str] = {
    "AC": "ArmChair",
    "BA": "BathtubBasin",
    "BE": "Bed",
    "CA": "Cabinet",
    "CF": "CoffeeTable",
    "CM": "CoffeeMachine",
    "CO": "CounterTop",
    "CR": "Cart",
    "DE": "Desk",
    "DI": "DiningTable",
    "DR": "Drawer",
    "DS": "Dresser",
    "FR": "Fridge",
    "GC": "GarbageCan",
    "HT": "HandTowelHolder",
    "LH": "LaundryHamper",
    "MW": "Microwave",
    "OT": "Ottoman",
    "SA": "Safe",
    "SB": "SinkBasin",
    "SH": "Shelf",
    "SI": "SideTable",
    "SO": "Sofa",
    "ST": "StoveBurner",
    "TH": "TowelHolder",
    "TL": "Toilet",
    "TO": "Toaster",
    "TP": "ToiletPaperHanger",
    "TV": "TVStand",
}

# Probability that a receptacle of the type has a door or a lid; every other type is open.
OPENABLE: Mapping[str, float] = {"Fridge": 1.0, "Microwave": 1.0, "Safe": 0.87, "Drawer": 0.84, "Cabinet": 0.82}


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """How often objects of one type occur in one kind of room, and where.

    Attributes:
        otype: object type, e.g. ``"Apple"``.
        presence: share of the games that have any.
        counts: weights of 1, 2, 3, … instances in a game that has any.
        placed: share of the instances that lie in a receptacle.
        places: receptacle type to weight; the weights need not add up to one.
    """

    otype: str
    presence: float
    counts: tuple[float, ...]
    placed: float
    places: Mapping[str, float]

    @property
    def mean_placed(self) -> float:
        """Expected number of instances in receptacles, over all games of the kind of room."""
        mean = sum(n * weight for n, weight in enumerate(self.counts, 1)) / sum(self.counts)
        return self.presence * mean * self.placed


@dataclass(frozen=True, slots=True)
class Room:
    """One kind of room.

    Attributes:
        name: ``"Kitchen"``, ``"Living"``, ``"Bedroom"`` or ``"Bathroom"``.
        receptacles: receptacle type to its number in each of the 27 scenes, ascending.
        objects: the object types, by name.
        shared: probability that a receptacle is reached from the same spot as an earlier one.
        doubled: probability that an object lies in two receptacles at once (overlapping boxes in the simulator).
        games: train games of each family that play in this kind of room.
    """

    name: str
    receptacles: Mapping[str, tuple[int, ...]]
    objects: tuple[ObjectStats, ...]
    shared: float
    doubled: float
    games: Mapping[str, int]


def _read_receptacles(table: str) -> dict[str, tuple[int, ...]]:
    """Read rows ``Type n*k n*k …``: n receptacles of the type in each of k scenes (``n`` alone: in one)."""
    rows: dict[str, tuple[int, ...]] = {}
    for line in table.strip().splitlines():
        rtype, *runs = line.split()
        counts: list[int] = []
        for run in runs:
            number, _, scenes = run.partition("*")
            counts += [int(number)] * int(scenes or 1)
        if len(counts) != SCENES:
            raise DataError(f"room table: {rtype} counts {len(counts)} scenes, not {SCENES}; correct its row")
        rows[rtype] = tuple(counts)
    return rows


def _read_objects(table: str) -> tuple[ObjectStats, ...]:
    """Read rows ``Type presence counts placed CODEweight …``, all in percent; counts ``U``: 1, 2, 3 a third each."""
    rows: list[ObjectStats] = []
    for line in table.strip().splitlines():
        otype, presence, counts, placed, *places = line.split()
        rows.append(
            ObjectStats(
                otype=otype,
                presence=int(presence) / 100,
                counts=(1.0, 1.0, 1.0) if counts == "U" else tuple(float(weight) for weight in counts.split("/")),
                placed=int(placed) / 100,
                places={CODES[place[:2]]: float(place[2:]) for place in places},
            )
        )
    return tuple(rows)


_KITCHEN_RECEPTACLES = """
Cabinet          2 4*2 8 9*2 10*3 11*2 12 13*4 15 16 18 19 20*3 21 23 26 27
CoffeeMachine    1*27
CounterTop       1*5 2*11 3*8 4*3
DiningTable      0*12 1*11 2*3 3
Drawer           0 1*2 2 3*6 4*4 5*3 6*3 7 8 9 12*2 13 27
Fridge           1*27
GarbageCan       1*27
Microwave        1*27
Safe             0*26 1
Shelf            0*23 3*4
SideTable        0*24 1*3
SinkBasin        1*27
StoveBurner      4*26 6
Toaster          1*27
"""

_KITCHEN_OBJECTS = """
Apple          100 U                100 CO25 FR24 DI15 MW13 GC12 SB9
Bowl           100 U                100 CA36 CO21 FR20 DI15
Bread          100 55/32/12/1       100 CO55 DI31 FR12
ButterKnife     97 U                100 CO59 DI27 DR8 SB5
Cup            100 U                100 CA23 CO21 FR21 DI15 SB9 MW7
DishSponge     100 U                100 CO26 CA24 DR21 DI13 SB7 GC5
Egg            100 U                100 FR25 CO24 SB13 GC13 MW12 DI12
Fork           100 U                 96 CO44 DI24 DR22 SB9
Glassbottle     24 U                100 CA31 CO27 DI14 SB9 FR9 GC7
HousePlant      36 91/9             100 CO77 DI23
Kettle          52 44/37/19         100 ST41 CO25 CA24 DI7
Knife          100 U                 95 CO48 DI25 DR21 SB5
Ladle           35 U                 96 CO41 CA25 DR17 DI14
Lettuce        100 42/35/23         100 CO41 DI28 FR23 SB5
Mug            100 U                 95 CO28 CM17 CA16 FR14 DI10 MW7
Pan            100 69/26/5          100 ST52 CO33 CA7
PaperTowelRoll  35 1                100 CO57 DI16 GC15 SH9
PepperShaker   100 U                100 CA33 CO30 DI16 DR15
Plate          100 U                 93 CA40 CO30 DI16 FR9
Pot            100 53/38/10         100 ST73 CO14
Potato         100 U                100 CO28 FR26 DI17 SB11 MW10 GC6
SaltShaker     100 U                100 CO32 CA32 DI18 DR14
SoapBottle     100 U                100 CO32 CA31 DI21 GC10
Spatula        100 U                100 CO45 DI25 DR21 SB9
Spoon          100 U                 96 CO38 DR28 DI22 SB11
Statue          15 37/49/14         100 CO51 SH44 DI5
Tomato         100 U                100 FR33 CO30 DI20 GC9 SB7
Vase            15 0/48/52          100 CO34 SH32 CA31
WineBottle      42 U                100 CO37 CA25 DI24 GC9
"""

_LIVING_RECEPTACLES = """
ArmChair         0*2 1*16 2*8 3
Cabinet          0*24 1 4 8
CoffeeTable      0*4 1*18 2*5
Desk             0*26 1
DiningTable      0*13 1*11 2*3
Drawer           0*6 1*6 2 4*6 6*2 7*3 8 12 21
Dresser          0*18 1*8 2
GarbageCan       1*27
Ottoman          0*23 1*4
Safe             0*26 1
Shelf            0*17 1 2 3 4 5 6 8*2 13 14
SideTable        0*6 1*9 2*6 3*5 5
Sofa             1*21 2*6
TVStand          0*15 1*10 2*2
"""

_LIVING_OBJECTS = """
Book            26 46/30/21/2       100 CF29 DS24 SO17 AC11 DI9 SI8
Box            100 69/25/5           86 DI26 SO24 CF23 SI8
CellPhone       21 U                100 DS19 SI17 CF17 SO14 DR13 DI9
CreditCard     100 U                100 SO19 CF15 DR13 AC13 SI10 DI9
DeskLamp        25 1                100 SI91 CF9
HousePlant     100 94/6              62 SI52 CF26 DS11 DI6 TV5
KeyChain       100 U                 79 CF20 SI16 DR16 SO12 AC9 TV7
Laptop         100 66/27/6          100 SO27 CF25 DI21 DS8 SI7 TV5
Newspaper       62 U                100 SO20 CF18 DI17 SI14 SH11 DS8
Pen             20 U                100 CF34 DS22 SI20 TV6 DR6
Pencil          17 U                100 SI32 CF27 DR10 DS7 GC6 TV6
Pillow         100 87/12            100 SO80 AC20
Plate           35 45/40/15         100 DI50 CF24 SH13 SI11
RemoteControl  100 U                 93 CF24 SO19 SI13 DI11 DS8 TV8
Statue          96 U                100 CF26 SH20 DI20 SI19 TV9 DS8
Television     100 1                 71 TV45 DS43 CF9
TissueBox       34 U                100 CF36 DI19 SI19 SH11 TV8
Vase            56 17/26/32/17/0/7   93 SH36 CF20 DI15 SI12 DS11 TV5
Watch           49 U                100 CF26 DR21 SI18 DI11 DS11 TV10
WateringCan     50 92/5/3            26 CF53 SH38 SI9
"""

_BEDROOM_RECEPTACLES = """
ArmChair         0*21 1*4 2 3
Bed              1*23 2*4
Cabinet          0*23 1 2 4*2
CounterTop       0*26 1
Desk             0*9 1*16 2*2
DiningTable      0*23 1*4
Drawer           0 2*7 3*3 4*2 5*4 6*2 8 10*2 11*2 13 16 17
Dresser          0*14 1*11 2*2
GarbageCan       1*27
LaundryHamper    0*20 1*7
Safe             0*23 1*4
Shelf            0*9 1*6 2*3 5*3 6 7 8 9 12 14
SideTable        0*9 1*12 2*6
"""

_BEDROOM_OBJECTS = """
AlarmClock     100 48/33/17/2       100 DE34 SH21 SI19 DS17 DI7
Book           100 42/32/23/3       100 BE51 DE19 DR12 DS5
Bowl            45 59/28/11/2       100 DE43 SH30 DS15 DI6
Box             47 1                 19 DE58 SH42
CD             100 U                 86 DR28 DE20 DS14 SI13 GC8 SH7
CellPhone      100 U                100 BE29 DE17 DR17 DS10 SI10 SH8
CreditCard     100 U                100 DR29 SH18 DE18 SI16 DS12
DeskLamp        71 94/6             100 DE35 SI28 DS25 SH11
HousePlant      27 1                 86 SH43 DE32 CA16 DS9
KeyChain       100 U                 94 DR26 DE18 SI16 SH16 DS13
Laptop         100 51/35/13         100 BE74 DE19
Mug             51 U                 95 DE36 SH18 SI16 DS16 DI9
Pen            100 U                100 DE28 DR18 SH16 DS15 SI14 DI6
Pencil         100 U                100 DE24 DR18 SI18 SH17 DS11 DI6
Pillow         100 42/47/10         100 BE99
Statue          15 64/25/11         100 SH43 DS27 DE26 SI5
TeddyBear       35 1                 75 BE100
TissueBox       14 41/35/23/2       100 DE37 DR26 DI15 SH12 SI9
"""

_BATHROOM_RECEPTACLES = """
BathtubBasin     0*8 1*19
Cabinet          0*14 2 3 4*8 5*2 9
Cart             0*25 1*2
CounterTop       0*4 1*19 2*4
Drawer           0*12 1*2 2*3 4*4 6*2 8*4
Dresser          0*25 1*2
GarbageCan       1*27
HandTowelHolder  1*16 2*10 4
Shelf            0*20 1*3 2*2 3 4
SideTable        0*25 1*2
SinkBasin        1*14 2*13
Toilet           1*27
ToiletPaperHanger 1*27
TowelHolder      1*19 2*8
"""

_BATHROOM_OBJECTS = """
Candle         100 U                 90 CO31 TL30 CA13 DR13 SH7
Cloth          100 U                100 BA30 CA20 CO17 DR15 SB8
DishSponge      24 25/35/33/8        94 CO20 DR20 BA18 SB10 SH10 TL8
HandTowel      100 82/18            100 HT96
PaperTowelRoll  16 1                 81 CO35 TL31 SH17 GC11 CR6
Sink           100 56/44             18 SB65 CO35
SoapBar        100 U                 93 CO20 TL16 SB15 CA12 BA12 DR11
SoapBottle     100 U                 90 CO30 TL24 CA20 SH9 GC9
SprayBottle    100 U                100 CO32 TL27 CA16 GC10 SH7
TissueBox       25 44/30/22/4       100 CO36 SH29 DR20 CA5
ToiletPaper    100 0/67/31/2         84 TL23 CO23 TP12 DR11 CA11 GC9
Towel          100 86/14            100 TH97
"""

KITCHEN = Room(
    name="Kitchen",
    receptacles=_read_receptacles(_KITCHEN_RECEPTACLES),
    objects=_read_objects(_KITCHEN_OBJECTS),
    shared=0.12,
    doubled=0.02,
    games={"place": 79, "clean": 501, "heat": 459, "cool": 533, "two": 124},
)
LIVING = Room(
    name="Living",
    receptacles=_read_receptacles(_LIVING_RECEPTACLES),
    objects=_read_objects(_LIVING_OBJECTS),
    shared=0.04,
    doubled=0.0,
    games={"look": 51, "place": 210, "two": 216},
)
BEDROOM = Room(
    name="Bedroom",
    receptacles=_read_receptacles(_BEDROOM_RECEPTACLES),
    objects=_read_objects(_BEDROOM_OBJECTS),
    shared=0.10,
    doubled=0.0,
    games={"look": 257, "place": 237, "two": 240},
)
BATHROOM = Room(
    name="Bathroom",
    receptacles=_read_receptacles(_BATHROOM_RECEPTACLES),
    objects=_read_objects(_BATHROOM_OBJECTS),
    shared=0.07,
    doubled=0.0,
    games={"place": 264, "clean": 149, "two": 233},
)
ROOMS = (KITCHEN, LIVING, BEDROOM, BATHROOM)
