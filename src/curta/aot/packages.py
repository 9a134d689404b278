"""Files by which build systems find a built library: CMake and pkg-config."""

from __future__ import annotations

from collections.abc import Sequence

_CMAKE = """\
# find_package({name} CONFIG REQUIRED PATHS <this folder>)
# target_link_libraries(<program> PRIVATE {name}::{name})
if(NOT TARGET {name}::{name})
  add_library({name}::{name} STATIC IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/{archive}"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
    INTERFACE_LINK_LIBRARIES "{links}")
endif()
"""

_PKG_CONFIG = """\
Name: {name}
Description: functions compiled by Curta
Version: {version}
Cflags: -I${{pcfiledir}}
Libs: -L${{pcfiledir}} {links}
"""


def cmake_config(name: str, links: Sequence[str], archive: str = "") -> str:
    """Return the file that `find_package(NAME CONFIG)` reads."""
    return _CMAKE.format(
        name=name, archive=archive or f"lib{name}.a", links=";".join(links)
    )


def pkg_config(name: str, links: Sequence[str], version: str = "0") -> str:
    """Return the file that `pkg-config NAME` reads."""
    flags = " ".join(f"-l{x}" for x in (name, *links))
    return _PKG_CONFIG.format(name=name, version=version, links=flags)
