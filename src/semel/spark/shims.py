"""Small scripts that stand before a program, for the few arguments and paths Spark gets wrong.

Role.   `executable` writes such a script into the user's cache and says where it is. `java` and `python_path` have the scripts.
Rules.  * Written once, by a rename, under a name that changes with its content: processes may use it while others look for it.
        * Where the cache cannot be written, the system's temporary folder serves, in a folder of this user alone.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semel.errors import SemelError
from semel.runtime.config import kernel_cache_directory

_DIGEST_LENGTH: Final = 16


class ShimError(SemelError):
    """No folder can be written."""


def executable(program: str, script: str, environment: Mapping[str, str]) -> Path:
    """The script as an executable file `…/bin/PROGRAM`."""
    folder = f"{program}-{hashlib.sha256(script.encode()).hexdigest()[:_DIGEST_LENGTH]}"
    for base in (
        kernel_cache_directory(environment).parent,
        Path(tempfile.gettempdir()) / f"semel-{os.getuid()}",
    ):
        try:
            return _written(base / folder / "bin" / program, script)
        except OSError:
            continue  # A read-only home: the next place.
    raise ShimError(
        f"a small script in front of {program} is needed, and no place for it can be written: set SEMEL_KERNEL_CACHE to a "
        "folder that can"
    )


def _written(target: Path, script: str) -> Path:
    if target.exists() and target.read_text(encoding="utf-8") == script:
        return target
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(script)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(target)
    return target
