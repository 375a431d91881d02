"""What is known of the official splits, to compare data with: numbers of games and the hashes of their panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .record import FAMILIES


@dataclass(frozen=True)
class OfficialSplit:
    """An official split.

    Attributes:
        families: family -> number of games.
        scenes: number of floor plans.
        panel_sha256: hash of its panel in the wording 0.4.2.
    """

    families: Mapping[str, int]
    scenes: int
    panel_sha256: str

    @property
    def games(self) -> int:
        """Number of games."""
        return sum(self.families.values())


def _split(counts: tuple[int, ...], scenes: int, panel_sha256: str) -> OfficialSplit:
    return OfficialSplit(dict(zip(FAMILIES, counts, strict=True)), scenes, panel_sha256)


OFFICIAL: Mapping[str, OfficialSplit] = {
    "train": _split(
        (790, 308, 650, 459, 533, 813), 108, "8609e9b2322b57b15ca98548514663d04d6be0780a0861826984c7edd2ed4068"
    ),
    "valid_seen": _split(
        (35, 13, 27, 16, 25, 24), 76, "db2d0619f18eed08eb7bff3316f83ef81b2af7f8c456fdf075b9ea86df222299"
    ),
    "valid_unseen": _split(
        (24, 18, 31, 23, 21, 17), 4, "e7ba71902f9ad2ba6f0667257ab840d4da2fbb45b1935697cd3207da4265fd08"
    ),
}
