"""CMakeLists.txt of a library, and what a Rust crate needs: `build.rs` and the module `P.rs`."""

from __future__ import annotations

import re

from axla.aot import rust
from axla.aot.library import Library, Weights


def write(library: Library) -> dict[str, str | bytes]:
    """The files."""
    return {
        "CMakeLists.txt": _cmake(library),
        "build.rs": rust.build_script(library),
        f"{library.prefix}.rs": rust.module(library),
    }


def has_loader(library: Library) -> bool:
    """Whether P_loader.c is there."""
    return library.weights is Weights.FILE or any(function.variables for function in library.functions)


_CMAKE = """\
#
#   add_subdirectory(this_folder), or find_package(PREFIX) when it is installed
#   target_link_libraries(your_program PRIVATE PREFIX)
#
# A toolchain file of the target is all that cross-compiling needs; tests run through
# CMAKE_CROSSCOMPILING_EMULATOR.
cmake_minimum_required(VERSION 3.13)
project(PREFIX C)

add_library(PREFIX INTERFACE)
target_include_directories(PREFIX INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}> $<INSTALL_INTERFACE:include>)
target_link_libraries(PREFIX INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}/PREFIX.a>
  $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/lib/PREFIX.a>)
"""

_LOADER = """
# Loads weights and variables from files.
add_library(PREFIX_loader STATIC PREFIX_loader.c)
target_include_directories(PREFIX_loader PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}>)
set_target_properties(PREFIX_loader PROPERTIES C_STANDARD 99)
target_link_libraries(PREFIX INTERFACE PREFIX_loader)
set(PREFIX_LOADER PREFIX_loader)
set(PREFIX_LOADER_H PREFIX_loader.h)
"""

_PROGRAMS = """
# What is for a folder that is the project: what is installed, and the programs that come with the library.
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  set(PREFIX_AT_TOP ON)
endif()
option(PREFIX_INSTALL "Install PREFIX for find_package" ${PREFIX_AT_TOP})
if(PREFIX_INSTALL)
  install(FILES PREFIX.h PREFIX.hpp ${PREFIX_LOADER_H} DESTINATION include)
  install(FILES PREFIX.a DESTINATION lib)
  install(TARGETS PREFIX ${PREFIX_LOADER} EXPORT PREFIXConfig ARCHIVE DESTINATION lib)
  install(EXPORT PREFIXConfig DESTINATION lib/cmake/PREFIX)
endif()
option(PREFIX_PROGRAMS "Build PREFIX_example, PREFIX_test and PREFIX_benchmark" ${PREFIX_AT_TOP})
if(PREFIX_PROGRAMS)
  add_executable(PREFIX_example example.c)
  add_executable(PREFIX_test PREFIX_test.c)
  add_executable(PREFIX_benchmark PREFIX_benchmark.c)
  foreach(program PREFIX_example PREFIX_test PREFIX_benchmark)
    target_link_libraries(${program} PRIVATE PREFIX)
  endforeach()
  enable_testing()
  add_test(NAME PREFIX_test COMMAND PREFIX_test WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
endif()
"""


def _cmake(library: Library) -> str:
    target = library.target
    title = f"# {library.prefix}: {library.name}, compiled for {target.name} ({target.triple}).\n"
    text = _CMAKE + _LOADER * has_loader(library) + _PROGRAMS
    if library.externals:
        text = text.replace("PREFIX.a>)", "PREFIX.a> ${PREFIX_EXTERNALS})")
    return title + re.sub("(?<!_)PREFIX", library.prefix, text)
