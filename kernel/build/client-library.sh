#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds liboutboard-client.so and liboutboard-client.a from crates/outboard-client, with the header
# and the pkg-config file. Neither needs liboutboard. The header client_calls.h is library.sh's.
source "$(dirname "$0")/common.sh"

[ "$VARIANT" = full ] || exit 0
"$BUILD/cargo-usable.sh" || fail "no cargo is new enough to build crates/: run 'make setup'"

export CARGO_TARGET_DIR=$OUT/cargo
work=$OBJECTS/outboard-client-library
header=$REPO/crates/outboard-client/include/outboard/client.h
soname=liboutboard-client.so.0
mkdir -p "$work" "$LIB_DIR/pkgconfig" "$INCLUDE_DIR/outboard"
install -C -m 644 "$header" "$INCLUDE_DIR/outboard/"

say "building the C library of remote clients"
cargo build --quiet --release --locked --jobs "$JOBS" --package outboard-client --lib \
	--manifest-path "$REPO/crates/Cargo.toml"
archive=$CARGO_TARGET_DIR/release/liboutboard_client.a

is_newest() {
	local input
	for input in "$archive" "$header" "$BUILD/client-library.sh" \
		"$BUILD/outboard-client.pc.in"; do
		[ "$1" -nt "$input" ] || return
	done
}
if is_newest "$LIB_DIR/$soname"; then
	exit 0
fi

# The public names are the functions of the header. Everything else stays local, also Rust's own
# library: a program may contain another one.
grep -hoE '\bob_client_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u >"$work/names"
sed 's/^/--undefined=/' "$work/names" >"$work/roots"
ld -r --gc-sections -o "$work/all.o" "@$work/roots" "$archive"
# Rust's library has bitcode for its own linker, of which ld has made nonsense.
objcopy --keep-global-symbols="$work/names" --remove-section=.llvmbc --remove-section=.llvmcmd \
	"$work/all.o" "$work/client.o"
rm "$work/all.o"

rm -f "$LIB_DIR/liboutboard-client.a"
ar rcsD "$LIB_DIR/liboutboard-client.a" "$work/client.o"

# nodelete: the hook for fork() stays to the end of the process.
gcc -shared -o "$LIB_DIR/$soname.new" "$work/client.o" -pthread \
	-Wl,-soname,$soname -Wl,--version-script="$BUILD/exports.map" -Wl,--gc-sections \
	-Wl,-z,defs -Wl,-z,text -Wl,-z,noexecstack -Wl,-z,nodelete
ln -sf $soname "$LIB_DIR/liboutboard-client.so"
sed -e "s,@PREFIX@,${INCLUDE_DIR%/*}," -e "s,@LIB_DIR@,$LIB_DIR," \
	-e "s,@VERSION@,$OUTBOARD_VERSION," "$BUILD/outboard-client.pc.in" \
	>"$LIB_DIR/pkgconfig/outboard-client.pc"
mv "$LIB_DIR/$soname.new" "$LIB_DIR/$soname"
