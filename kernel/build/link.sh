#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Links the compiled kernel of one variant into one file, the kernel image,
# if anything changed. Runs link-kernel.sh inside kbuild, where the
# variables of Linux's build are set.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

kernel=$OBJECTS/outboard-link/kernel.image
newest=$(find "$OBJECTS/vmlinux.o" "$OBJECTS/.vmlinux.export.o" \
	"$OBJECTS/init/version-timestamp.o" \
	"$OBJECTS/arch/outboard/kernel/vmlinux.lds" "$BUILD/link-kernel.sh" "$BUILD/text.lds" \
	"$BUILD/check-image.py" "$BUILD/check-names.py" \
	-newer "$kernel" 2>/dev/null || echo missing)
if [ -f "$kernel" ] && [ -z "$newest" ]; then
	exit 0
fi

say "linking the kernel"
linux_make -s run-command KBUILD_RUN_COMMAND="$BUILD/link-kernel.sh"
