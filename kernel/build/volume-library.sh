#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds liboutboard-volume.so and liboutboard-volume.a from crates/outboard-c, with the header and
# the pkg-config file. Both need liboutboard and do not contain it. All variants of liboutboard fit,
# so only the profile full builds them.
source "$(dirname "$0")/common.sh"

[ "$VARIANT" = full ] || exit 0
"$BUILD/cargo-usable.sh" || fail "no cargo is new enough to build crates/: run 'make setup'"

export OUTBOARD_LIB_DIR=$LIB_DIR OUTBOARD_INCLUDE_DIR=$INCLUDE_DIR CARGO_TARGET_DIR=$OUT/cargo
work=$OBJECTS/outboard-volume-library
header=$REPO/crates/outboard-c/include/outboard/volume.h
soname=liboutboard-volume.so.0
mkdir -p "$work" "$LIB_DIR/pkgconfig" "$INCLUDE_DIR/outboard"
install -C -m 644 "$header" "$INCLUDE_DIR/outboard/"

say "building the C library of volumes"
# outboard-cli, which has no library, only adds features of its dependencies: so cargo test uses the
# same objects.
cargo build --quiet --release --locked --jobs "$JOBS" --package outboard-c --package outboard-cli \
	--lib --manifest-path "$REPO/crates/Cargo.toml"
archive=$CARGO_TARGET_DIR/release/liboutboard_volume_c.a

is_newest() {
	local input
	for input in "$archive" "$header" "$LIB_DIR/liboutboard.so.0" \
		"$BUILD/volume-library.sh" "$BUILD/outboard-volume.pc.in"; do
		[ "$1" -nt "$input" ] || return
	done
}
if is_newest "$LIB_DIR/$soname"; then
	exit 0
fi

# The public names are the functions of the header. Everything else stays local, also Rust's own
# library: a program may contain another one.
grep -hoE '\bob_volume_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u >"$work/names"
sed 's/^/--undefined=/' "$work/names" >"$work/roots"
ld -r --gc-sections -o "$work/all.o" "@$work/roots" "$archive"
# Rust's library has bitcode for its own linker, of which ld has made nonsense.
objcopy --keep-global-symbols="$work/names" --remove-section=.llvmbc --remove-section=.llvmcmd \
	"$work/all.o" "$work/volume.o"
rm "$work/all.o"

rm -f "$LIB_DIR/liboutboard-volume.a"
ar rcsD "$LIB_DIR/liboutboard-volume.a" "$work/volume.o"

# nodelete: the hook for fork() stays to the end of the process.
# shellcheck disable=SC2016 # the dynamic loader expands $ORIGIN
gcc -shared -o "$LIB_DIR/$soname.new" "$work/volume.o" -L"$LIB_DIR" -loutboard -pthread -lm \
	-Wl,-soname,$soname -Wl,--version-script="$BUILD/exports.map" -Wl,--gc-sections \
	-Wl,-z,defs -Wl,-z,text -Wl,-z,noexecstack -Wl,-z,nodelete -Wl,-rpath,'$ORIGIN'
ln -sf $soname "$LIB_DIR/liboutboard-volume.so"
sed -e "s,@PREFIX@,${INCLUDE_DIR%/*}," -e "s,@LIB_DIR@,$LIB_DIR," \
	-e "s,@VERSION@,$OUTBOARD_VERSION," "$BUILD/outboard-volume.pc.in" \
	>"$LIB_DIR/pkgconfig/outboard-volume.pc"
mv "$LIB_DIR/$soname.new" "$LIB_DIR/$soname"
