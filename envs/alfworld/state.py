"""The changing part of a game: a small mutable state over object, receptacle and location indices.

Invariant: index tuples are strictly ascending, so that equal states have equal encodings. `encode` is therefore both
the body of a snapshot and the canonical form behind the state keys.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

Indices = tuple[int, ...]

NOTHING = -1
"""Value of `State.held` when the hand is empty."""


@dataclass(slots=True)
class State:
    """Where the agent and the objects are, and what has been done to them.

    Attributes:
        location: index of the agent's location.
        held: index of the held object, or `NOTHING`.
        contents: per receptacle, the objects in it.
        present: per location, the objects whose position it is (also those in no receptacle).
        left: per receptacle, the objects that a take removed and no move brought back. Only `look` reads it.
        opened: bit mask over receptacles.
        clean, hot, cool, sliced, toggled: bit masks over objects.
    """

    location: int
    held: int
    contents: list[Indices]
    present: list[Indices]
    left: list[Indices]
    opened: int
    clean: int
    hot: int
    cool: int
    sliced: int
    toggled: int

    def copy(self) -> State:
        """Return an independent copy."""
        return State(
            self.location,
            self.held,
            self.contents[:],
            self.present[:],
            self.left[:],
            self.opened,
            self.clean,
            self.hot,
            self.cool,
            self.sliced,
            self.toggled,
        )

    def encode(self, objects: int, *, with_left: bool) -> bytes:
        """Return the canonical bytes of the state of a game with that many objects; `with_left=False` omits `left`."""
        return self.encode_rest(objects) + self.encode_places(with_left=with_left)

    def encode_places(self, *, with_left: bool) -> bytes:
        """Return the part of `encode` that only a take or a move changes, and the larger part: where objects are."""
        values: list[int] = []
        groups = (self.contents, self.present, self.left) if with_left else (self.contents, self.present)
        for group in groups:
            for indices in group:
                values.append(len(indices))
                values += indices
        return struct.pack(f"<{len(values)}H", *values)

    def encode_rest(self, objects: int) -> bytes:
        """Return the part of `encode` that goes before `encode_places`."""
        size = (objects + 7) // 8
        return b"".join(
            (
                self.opened.to_bytes((len(self.contents) + 7) // 8, "little"),
                self.clean.to_bytes(size, "little"),
                self.hot.to_bytes(size, "little"),
                self.cool.to_bytes(size, "little"),
                self.sliced.to_bytes(size, "little"),
                self.toggled.to_bytes(size, "little"),
                struct.pack("<2H", self.location, self.held + 1),
            )
        )

    @classmethod
    def decode(cls, data: bytes, objects: int, receptacles: int, locations: int) -> State:
        """Invert `encode(…, with_left=True)` for a game of that size.

        Raises:
            ValueError: when the bytes do not have the length that they announce.
        """
        size, position = (objects + 7) // 8, (receptacles + 7) // 8
        masks = [int.from_bytes(data[:position], "little")]
        for _ in range(5):
            masks.append(int.from_bytes(data[position : position + size], "little"))
            position += size
        if position > len(data) or (len(data) - position) % 2:
            raise ValueError("wrong length")
        values = struct.unpack(f"<{(len(data) - position) // 2}H", data[position:])
        groups: list[Indices] = []
        position = 2
        for _ in range(2 * receptacles + locations):
            if position >= len(values):
                raise ValueError("wrong length")
            end = position + 1 + values[position]
            groups.append(values[position + 1 : end])
            position = end
        if position != len(values):
            raise ValueError("wrong length")
        return cls(
            values[0],
            values[1] - 1,
            groups[:receptacles],
            groups[receptacles : receptacles + locations],
            groups[receptacles + locations :],
            *masks,
        )


def with_index(indices: Indices, index: int) -> Indices:
    """Return the ascending tuple with one more index (unchanged when it is there already)."""
    return indices if index in indices else tuple(sorted((*indices, index)))


def without_index(indices: Indices, index: int) -> Indices:
    """Return the tuple without an index (unchanged when it is not there)."""
    return tuple(i for i in indices if i != index) if index in indices else indices
