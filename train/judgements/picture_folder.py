"""A folder that a data set's pictures lie in, and the paths that lead to them and nowhere else."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path

from train.judgements.picture_sources import FilePicture
from train.judgements.records import JudgementDataError

__all__ = ["PictureFolder", "PicturePathError"]


class PicturePathError(ValueError):
    """A path in a data set that leads to no picture of it; the message is the reason alone, for a refusal."""


class PictureFolder:
    """A folder of pictures.

    Args:
        root: The folder.

    Raises:
        JudgementDataError: It is no folder.
    """

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise JudgementDataError(
                f"the pictures' folder {os.fspath(root)!r:.200} cannot be used "
                f"({getattr(error, 'strerror', None) or error}); give the folder that paths are relative to"
            ) from error
        if not self.root.is_dir():
            raise JudgementDataError(f"{root} is no folder; give the folder that the pictures' paths are relative to")
        # Text, not paths: a data set names a hundred thousand pictures.
        self._prefix = os.path.join(self.root, "")
        # Pictures share few folders, and following links costs a look at every step of a path.
        self._followed = lru_cache(maxsize=4096)(os.path.realpath)

    def picture(self, path: object) -> FilePicture:
        """Return the picture at a path relative to the folder, or at an absolute one inside it.

        Raises:
            PicturePathError: The path is no text, leads out of the folder, or there is no regular file at its end.
        """
        if not isinstance(path, str) or not path:
            raise PicturePathError(f"a picture's path must be text, but is {path!r:.80}")
        try:
            joined = os.path.join(self._prefix, path)
            folder, name = os.path.split(joined)
            whole = name in ("", ".", "..")
            found = self._inside(
                os.path.realpath(joined) if whole else os.path.join(self._followed(folder), name), path
            )
            status = os.lstat(found)
            if stat.S_ISLNK(status.st_mode):
                found = self._inside(os.path.realpath(found), path)
                status = os.lstat(found)
        except OSError as error:
            raise PicturePathError(self._missing(path, error)) from error
        except PicturePathError:
            raise
        except ValueError as error:  # a null character, or half of a surrogate pair
            raise PicturePathError(f"picture {path!r:.200}: {error}") from error
        if not stat.S_ISREG(status.st_mode):
            raise PicturePathError(f"picture {path!r:.200} is no regular file in {self.root}")
        return FilePicture(found, found[len(self._prefix) :].replace(os.sep, "/"))

    def _inside(self, found: str, path: str) -> str:
        if not (found + os.sep).startswith(self._prefix):
            raise PicturePathError(
                f"picture {path!r:.200} leads out of the folder {self.root}, where no path is followed"
            )
        return found

    def _missing(self, path: str, error: OSError) -> str:
        if isinstance(error, FileNotFoundError):
            return f"picture {path!r:.200} does not exist in {self.root}"
        return f"picture {path!r:.200} in {self.root}: {error.strerror or error}"
