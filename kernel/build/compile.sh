#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Compiles the kernel of one variant with Linux's own build, up to what our
# link needs: vmlinux.a, the table of exported symbols, the linker script; and the modules.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

targets=(modpost)
if [ "$MODULES" = y ] && grep -q '=m$' "$OBJECTS/.config"; then
	targets+=(modules)
else
	: >"$OBJECTS/modules.order"
fi

# The first time, the fragments say about how many objects there will be, modules included.
done=0
total=0
if [ "$MODULES" = y ] && [ ! -f "$OBJECTS/outboard-compiled" ]; then
	done=$(find "$OBJECTS" -name '*.o' | wc -l)
	total=$(cat "$OBJECTS/outboard-estimate")
fi

say "compiling Linux $(linux_make -s kernelversion) ($VARIANT) in $OBJECTS"
linux_make -j"$JOBS" "${targets[@]}" 2>&1 |
	python3 "$BUILD/progress.py" "kernel $VARIANT" "$done" "$total"
touch "$OBJECTS/outboard-compiled"

# The rest is asked of kbuild from inside, where all of its variables are set.
# shellcheck disable=SC2016 # make expands these
linux_make -s run-command \
	KBUILD_RUN_COMMAND='$(MAKE) -s -f $(srctree)/scripts/Makefile.vmlinux .vmlinux.export.o'
# shellcheck disable=SC2016
linux_make -s run-command KBUILD_RUN_COMMAND='$(MAKE) -s $(build)=init init/version-timestamp.o'
# shellcheck disable=SC2016
linux_make -s run-command \
	KBUILD_RUN_COMMAND='$(MAKE) -s $(build)=arch/outboard/debug arch/outboard/debug/types.o'
