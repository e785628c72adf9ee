#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds modules of the user's own for the kernel of this variant, by Linux's
# own rules: M is a directory with a Kbuild file or a Makefile that sets obj-m. The .ko files
# are left in that directory.
source "$(dirname "$0")/common.sh"

directory=$(realpath -e -- "$1" 2>/dev/null) || fail "M=$1: there is no such directory"
[ -f "$directory/Kbuild" ] || [ -f "$directory/Makefile" ] ||
	fail "M=$1: it has neither a Kbuild file nor a Makefile (one line will do: obj-m := NAME.o)"
[ -f "$OBJECTS/Module.symvers" ] ||
	fail "the kernel $VARIANT is not built yet: run make first, with the same PROFILE"
lock_directory "$OBJECTS"
# Linux's build refuses such a path, but finds the directory by a link.
if ! [[ $directory =~ $PLAIN_PATH ]]; then
	ln -sfn "$directory" "$OBJECTS/outboard-module"
	directory=$OBJECTS/outboard-module
fi
linux_make -s -j"$JOBS" M="$directory" modules
