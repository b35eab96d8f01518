"""What a wheel needs beyond its sources: compiled kernels, its commit, and a README whose links work outside of the repository.

Role.   `BuildHook` writes the commit into wheels and source archives as `semel/_commit.py`; the tree stays as it is. It puts the
        library of `tools/native_kernels.py` into a wheel, and names the platform in its tag. Where that cannot be made, the wheel
        is pure, and numba compiles kernels on the user's machine. `PageHook` gives the package its links, and makes those of
        the README absolute.
Flow.   hatchling calls both. An editable installation takes the library from the sources, where `make install` puts it.
Rules.  * The repository's address is one constant, in pyproject.toml.
        * The commit is `SEMEL_COMMIT` if the builder sets it, as where the tree comes without its history (`Dockerfile`). A
          source archive keeps the commit it was made from. A checkout is asked by git. An editable installation gets none: its
          commit changes.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

TOOL: Final = Path("tools", "native_kernels.py")
LIBRARY: Final = "semel/core/records/semel_kernels.so"
NOT_HERE: Final = 2
# The library needs no symbol of a libc but memcpy, and none of a Python but its stable ABI.
TAG: Final = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"
_LINK: Final = re.compile(r"(!?)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\((?!https?://|#)([^)\s]+)\)")
COMMIT: Final = Path("src", "semel", "_commit.py")


class BuildHook(BuildHookInterface[Any]):
    """The commit, and compiled kernels for a wheel of this platform."""

    _folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files to include."""
        if version == "editable":
            return
        self._folder = tempfile.mkdtemp(prefix="semel-build-")
        kept = Path(self._folder, COMMIT.name)
        kept.write_text(commit_module(Path(self.root)), encoding="utf-8")
        is_wheel = self.target_name == "wheel"
        build_data["force_include"][str(kept)] = str(COMMIT.relative_to("src") if is_wheel else COMMIT)
        if is_wheel:
            self._make_library(Path(self._folder, "semel_kernels.so"), build_data)

    def _make_library(self, out: Path, build_data: dict[str, Any]) -> None:
        """Make the library, or leave the wheel pure."""
        done = subprocess.run(
            [sys.executable, str(Path(self.root, TOOL)), "--out", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == NOT_HERE:
            self.app.display_warning(done.stdout.strip())
            return
        if done.returncode:
            raise RuntimeError(f"{TOOL} failed:\n{done.stdout}{done.stderr}")
        build_data["force_include"][str(out)] = LIBRARY
        build_data["pure_python"] = False
        build_data["tag"] = TAG

    def finalize(self, *_of_no_use: Any) -> None:
        """The archive has its copies."""
        if self._folder is not None:
            shutil.rmtree(self._folder)


def commit_module(root: Path) -> str:
    """The text of `semel/_commit.py`."""
    given = os.environ.get("SEMEL_COMMIT")
    kept = Path(root, COMMIT)
    if given is None and kept.exists():
        return kept.read_text(encoding="utf-8")
    return f'"""Written by the build: where this copy comes from."""\n\nCOMMIT = {given or _asked(root)!r}\n'


def _asked(root: Path) -> str:
    """By the tree's own code, which needs nothing that is installed."""
    spec = spec_from_file_location("environment", Path(root, "src", "semel", "runtime", "environment.py"))
    if spec is None or spec.loader is None:
        return "unknown"
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.commit_of_checkout(Path(root, "src", "semel")))


class PageHook(MetadataHookInterface):
    """Links of the package, and of its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what pyproject.toml calls dynamic."""
        repository = self.config["repository"]
        metadata["urls"] = {
            "Source": repository,
            "Documentation": f"{repository}/blob/main/docs",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
        page = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(page, repository)}


def absolute(page: str, repository: str) -> str:
    """The page with links into the repository in place of links beside it: to files, and to pictures as they are."""

    def link(found: re.Match[str]) -> str:
        is_picture, text, place = found.groups()
        kind = "raw" if is_picture else "blob"
        return f"{is_picture}[{absolute(text, repository)}]({repository}/{kind}/main/{place})"

    return _LINK.sub(link, page)


def get_build_hook() -> type[BuildHook]:
    """What hatchling asks for when it builds."""
    return BuildHook


def get_metadata_hook() -> type[PageHook]:
    """What hatchling asks for when it reads the project's metadata."""
    return PageHook
