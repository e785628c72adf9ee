#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes the tables behind ob_kernel_config(), ob_kernel_release() and ob_profile().

    lib/generate-config.py OBJDIR PROFILE OUTDIR

reads OBJDIR/.config and OBJDIR/include/config/kernel.release of a configured kernel build and
writes OUTDIR/config.c; compile it with -I lib.
"""

import argparse
import re
import sys
from pathlib import Path


def read_config(path: Path) -> list[tuple[str, str]]:
    options = []
    for line in path.read_text().splitlines():
        match = re.fullmatch(r"(CONFIG_\w+)=(.*)", line)
        if not match:
            continue
        value = match[2]
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        options.append((match[1], value))
    if not options:
        raise OSError(f"{path}: no options set")
    return options


def c_string(text: str) -> str:
    """A C string literal; octal escapes have a fixed length, so nothing can run into them."""
    plain = set(range(32, 127)) - {ord('"'), ord("\\"), ord("?")}
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def source(options: list[tuple[str, str]], release: str, profile: str) -> str:
    table = "".join(f"\t{c_string(name + '=' + value)} \"\\0\"\n" for name, value in options)
    return (
        "/* Made by lib/generate-config.py from the kernel's configuration: do not edit. */\n"
        '#include "config.h"\n\n'
        f"const char ob_config_release[] = {c_string(release)};\n"
        f"const char ob_config_profile[] = {c_string(profile)};\n"
        f"const char ob_config_options[] =\n{table};\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the table of the kernel's configuration.")
    parser.add_argument("objdir", type=Path, help="object directory of the kernel build")
    parser.add_argument("profile", help="name of the profile: full, base, vfs, net")
    parser.add_argument("outdir", type=Path, help="directory for the result")
    arguments = parser.parse_args()
    try:
        options = read_config(arguments.objdir / ".config")
        release = (arguments.objdir / "include/config/kernel.release").read_text().strip()
    except OSError as error:
        print(f"generate-config.py: {error}", file=sys.stderr)
        return 1
    text = source(options, release, arguments.profile)
    result = arguments.outdir / "config.c"
    arguments.outdir.mkdir(parents=True, exist_ok=True)
    if not result.exists() or result.read_text() != text:
        result.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
