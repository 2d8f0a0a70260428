"""The lists of the ArtGAN release of WikiArt: which picture is of which class of style, genre and artist."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

from indexer.sources.source import BadSample, SourceError

__all__ = ["STYLE_FOLDERS", "ArtganLists", "style_of_folder"]

STYLE_FOLDERS = (
    "Abstract_Expressionism",
    "Action_painting",
    "Analytical_Cubism",
    "Art_Nouveau_Modern",
    "Baroque",
    "Color_Field_Painting",
    "Contemporary_Realism",
    "Cubism",
    "Early_Renaissance",
    "Expressionism",
    "Fauvism",
    "High_Renaissance",
    "Impressionism",
    "Mannerism_Late_Renaissance",
    "Minimalism",
    "Naive_Art_Primitivism",
    "New_Realism",
    "Northern_Renaissance",
    "Pointillism",
    "Pop_Art",
    "Post_Impressionism",
    "Realism",
    "Rococo",
    "Romanticism",
    "Symbolism",
    "Synthetic_Cubism",
    "Ukiyo_e",
)
_LIST = re.compile(r"(style|genre|artist)_(train|val|class)(\.csv|\.txt)?", re.IGNORECASE)
# A list's row: a path that may hold commas, one or two commas, a class number.
_ROW = re.compile(r"(.+?\.\w{2,5}),{1,2}\s*(\d{1,6})")
_CLASS = re.compile(r"(\d{1,6})\s+(.+)")
_DEPTH = 3
_MAX_BYTES = 64 << 20


@dataclass
class ArtganLists:
    """What the lists say of pictures, by their path in Unicode NFC.

    Attributes:
        names: For each of style, genre and artist the classes' names by number.
        classes: For each of them the class of a picture.
        splits: "train" or "val" of a picture, as the lists of styles have it.
        rows: For each list's file its pictures in order.
        faults: What in a list cannot be used.
    """

    names: dict[str, dict[int, str]] = field(default_factory=lambda: {"style": {}, "genre": {}, "artist": {}})
    classes: dict[str, dict[str, int]] = field(default_factory=lambda: {"style": {}, "genre": {}, "artist": {}})
    splits: dict[str, str] = field(default_factory=dict)
    rows: dict[str, list[str]] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def found_under(cls, root: Path) -> ArtganLists:
        """Read all lists in a folder and those inside it.

        Raises:
            SourceError: One cannot be read.
        """
        lists = cls()
        found = {}
        for place, folders, files in os.walk(root):
            depth = len(Path(place).relative_to(root).parts)
            folders[:] = sorted(name for name in folders if name not in STYLE_FOLDERS and depth < _DEPTH)
            found.update({Path(place, name): match for name in sorted(files) if (match := _LIST.fullmatch(name))})
        for path, match in found.items():
            lists._add(path, path.relative_to(root).as_posix(), match[1].lower(), match[2].lower())
        return lists

    def class_name(self, what: str, picture: str) -> str | None:
        """Return the class of a picture by its name, or ``None`` where no list has it."""
        number = self.classes[what].get(picture)
        return None if number is None else self.names[what].get(number, str(number))

    def faults_with(self, there: Set[str], passed_over: Set[str]) -> Iterator[BadSample]:
        """Give a line for each list that names pictures which are not there, or has rows that cannot be used.

        Args:
            there: The pictures that are there.
            passed_over: Lists that need no line.
        """
        for name, pictures in self.rows.items():
            missing = [picture for picture in pictures if picture not in there]
            reasons = list(self.faults.get(name, []))
            if missing:
                reasons.insert(0, f"names {len(missing):,} pictures that are not there, such as {missing[0]!r}")
            if reasons and name not in passed_over:
                more = f"; and {len(reasons) - 3} more faults" if len(reasons) > 3 else ""
                yield BadSample(name, f"the list {'; '.join(reasons[:3])}{more}")

    def _add(self, path: Path, name: str, what: str, part: str) -> None:
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise SourceError(f"{path} has more than {_MAX_BYTES:,} bytes, which no list of WikiArt has")
            # A byte that is not UTF-8 makes a name that no picture has, and is reported so.
            lines = path.read_bytes().decode("utf-8-sig", "backslashreplace").split("\n")
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror or error}; see to it and run again") from error
        lines = [line.strip("\r ") for line in lines]
        if part == "class":
            matches = (_CLASS.fullmatch(line) for line in lines)
            self.names[what].update({int(match[1]): match[2].strip() for match in matches if match})
            return
        rows, faults = self.rows.setdefault(name, []), self.faults.setdefault(name, [])
        for number, line in enumerate(lines, 1):
            match = _ROW.fullmatch(line)
            if match is None:
                # The lists of artists begin with a title and a blank line.
                if line and (rows or "," in line):
                    faults.append(f"has no picture and class in line {number}: {line[:60]!r}")
                continue
            picture, number_of_class = unicodedata.normalize("NFC", match[1]), int(match[2])
            known = self.classes[what].setdefault(picture, number_of_class)
            if known != number_of_class:
                faults.append(f"gives {picture!r} the class {number_of_class} besides {known}, which is kept")
            if what == "style":
                self.splits.setdefault(picture, part)
            rows.append(picture)


def style_of_folder(folder: str) -> str:
    """Return the class of a style's folder; the two differ for one of them.

    >>> style_of_folder("Art_Nouveau_Modern"), style_of_folder("Rococo")
    ('Art_Nouveau', 'Rococo')
    """
    return "Art_Nouveau" if folder == "Art_Nouveau_Modern" else folder
