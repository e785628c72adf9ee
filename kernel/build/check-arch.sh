#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Compiles kernel/arch for one variant, and nothing else of Linux: warnings are errors. Nothing is
# linked.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

say "compiling kernel/arch for $VARIANT"
linux_make -s -j"$JOBS" KCFLAGS=-Werror arch/outboard/
