"""axla cache: shows or clears the cache of compiled programs on disk.

    axla cache                 the folder, its bound, entries and bytes of each kind
    axla cache --clear         drops everything; programs are compiled again when they are needed

Kinds: programs (whole modules), kernels (their parts), glues (code between Python and programs), hosts
(LLVM's facts about this machine). AXLA_CACHE_DIR names the folder.
"""

from __future__ import annotations

import argparse

from axla.core import cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla cache`."""
    parser.add_argument("--clear", action="store_true", help="delete all entries")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla cache`; returns its exit status."""
    folders = {kind: cache.directory(kind) for kind in cache.KINDS}
    used = next((folder.parent for folder in folders.values() if folder), None)
    if used is None:
        print("no cache on disk")
        return 0
    sizes = {kind: [size for _, size, _ in cache.entries(kind)] for kind in cache.KINDS}
    if options.clear:
        cache.clear(disk=True)
    print(f"{used}, at most {cache.DISK_BYTES >> 20} MiB")
    for kind, found in sizes.items():
        print(f"{kind}s: {len(found)} entries, {sum(found)} bytes{', dropped' if options.clear else ''}")
    return 0
