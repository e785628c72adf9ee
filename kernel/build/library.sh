#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes the libraries of one variant from the kernel image, hypercall/posix, devices/ and lib/:
# liboutboard.so and liboutboard.a, both from one relocatable object in which
# only the public API is global; the headers; the pkg-config file; what gdb needs.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

work=$OBJECTS/outboard-library
generated=$work/generated
mkdir -p "$generated" "$LIB_DIR/pkgconfig" "$INCLUDE_DIR/outboard"

# These write only what has changed.
python3 "$REPO/lib/generate-config.py" "$OBJECTS" "$PROFILE" "$generated"
python3 "$REPO/lib/generate-syscalls.py" "$TREE" "$generated"
install -C -m 644 "$REPO"/lib/include/outboard/*.h "$generated"/outboard/*.h \
	"$INCLUDE_DIR/outboard/"

make --no-print-directory -s -j"$JOBS" -f "$BUILD/library.mk" \
	REPO="$REPO" OBJECTS="$OBJECTS" WORK="$work" LIB_DIR="$LIB_DIR" \
	INCLUDE_DIR="$INCLUDE_DIR" VERSION="$OUTBOARD_VERSION" COMPILER="$HOST_CC" all

# gdb looks for the script under the second name, and loads it where it is allowed to.
mkdir -p "$LIB_DIR/outboard_gdb"
install -C -m 644 "$REPO/lib/outboard-gdb.py" "$LIB_DIR/"
install -C -m 644 "$REPO"/lib/outboard_gdb/*.py "$LIB_DIR/outboard_gdb/"
install -C -m 644 "$OBJECTS/arch/outboard/debug/types.o" "$LIB_DIR/outboard-types.o"
ln -sf outboard-gdb.py "$LIB_DIR/liboutboard.so.0-gdb.py"
