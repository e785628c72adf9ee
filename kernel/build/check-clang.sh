#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Compiles kernel/arch, hypercall/, devices/ and lib/ with clang, warnings being errors.
# Nothing is linked: the kernel that is shipped is gcc's.
source "$(dirname "$0")/common.sh"

command -v clang >/dev/null || fail "clang is missing: install the packages clang, lld and llvm"

work=$OUT/kernel/$VARIANT-clang
mkdir -p "$work"
cmp -s "$OBJECTS/.config" "$work/gcc.config" || {
	cp "$OBJECTS/.config" "$work/gcc.config"
	cp "$OBJECTS/.config" "$work/.config"
}

say "compiling kernel/arch with $(clang --version | head -n 1)"
# Kbuild knows no target of clang for our architecture.
clang_make() {
	make --no-print-directory -s -C "$TREE" O="$work" ARCH=outboard LLVM=1 \
		CLANG_TARGET_FLAGS_outboard=x86_64-linux-gnu "$@"
}
clang_make olddefconfig
# Linux's own asm-generic/io.h adds to a null pointer where there are no I/O ports.
clang_make -j"$JOBS" KCFLAGS="-Werror -Wno-null-pointer-arithmetic" arch/outboard/

say "compiling hypercall/, devices/ and lib/ with clang"
rm -rf "$work/outboard-library"
mkdir -p "$work/outboard-library"
cp -a "$OBJECTS/outboard-library/generated" "$work/outboard-library/"
rm -f "$work"/outboard-library/generated/*.o
make --no-print-directory -s -j"$JOBS" -f "$BUILD/library.mk" \
	REPO="$REPO" OBJECTS="$OBJECTS" WORK="$work/outboard-library" LIB_DIR="$work/unused" \
	INCLUDE_DIR="$INCLUDE_DIR" VERSION="$OUTBOARD_VERSION" COMPILER=clang objects
