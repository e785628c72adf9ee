#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes out/source/linux: a copy of Linux's source with one addition, the
# symbolic link arch/outboard. The original (the distribution's tarball, or
# LINUX_SOURCE) is only read. A complete tree appears by a rename, so one that
# was interrupted is made again.
source "$(dirname "$0")/common.sh"

lock_directory "$OUT/source"
original=$(realpath -e -- "$LINUX_SOURCE" 2>/dev/null) ||
	fail "there is no $LINUX_SOURCE: install the package linux-source-6.12, or set" \
		"LINUX_SOURCE to a directory or tarball of Linux 6.12"

# A package update, or another LINUX_SOURCE, must not meet old objects: file times go back.
if [ -d "$original" ]; then
	identity="$original $(head -n 5 "$original/Makefile" 2>/dev/null | sha256sum)"
else
	identity="$original $(stat -c '%s %Y' "$original")"
fi
stamp=$OUT/source/identity
if [ -d "$TREE" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$identity" ]; then
	exit 0
fi

mkdir -p "$OUT/source"
rm -rf "$TREE" "$stamp" "$OUT"/source/unpacking.* "$OUT"/kernel/*
temporary=$(mktemp -d "$OUT/source/unpacking.XXXXXX")
trap 'rm -rf "$temporary"' EXIT

say "copying the Linux source from $original"
"$BUILD/copy-source.sh" "$original" "$temporary"

version=$(sed -n 's/^VERSION *= *//p' "$temporary/Makefile" 2>/dev/null || true)
patchlevel=$(sed -n 's/^PATCHLEVEL *= *//p' "$temporary/Makefile" 2>/dev/null || true)
[ -n "$version" ] || fail "$original is not a Linux source tree: it has no Makefile with a VERSION"
[ "$version.$patchlevel" = 6.12 ] ||
	fail "$original is Linux $version.$patchlevel; Outboard needs Linux 6.12"
[ ! -e "$temporary/.config" ] ||
	fail "$original has been built in (it has a .config): run 'make mrproper' in it," \
		"or give a clean copy"

ln -s "$ARCH_LINK" "$temporary/arch/outboard"
chmod 755 "$temporary"
mv "$temporary" "$TREE"
trap - EXIT
printf '%s\n' "$identity" >"$stamp"
