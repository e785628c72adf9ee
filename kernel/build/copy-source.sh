#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# copy-source.sh ORIGINAL DIRECTORY: fills an empty directory with the Linux
# source of a tarball (its one top directory is left out) or of a directory.
source "$(dirname "$0")/common.sh"

original=$1
directory=$2

if [ -d "$original" ]; then
	cp -a --reflink=auto "$original/." "$directory/"
	rm -rf "$directory/.git"
else
	tar -x --no-same-owner --strip-components=1 -C "$directory" -f "$original" ||
		fail "$original cannot be unpacked: it is no tarball, or it is damaged," \
			"or the disk is full"
fi
