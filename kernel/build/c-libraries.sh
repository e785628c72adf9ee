#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the C libraries that are made of crates/, shared and static, with their headers and
# pkg-config files:
#
#   liboutboard-volume   files of disk images     crates/outboard-c        needs liboutboard
#   liboutboard-server   a kernel that serves     crates/outboard-c        needs liboutboard
#   liboutboard-client   clients of a server      crates/outboard-client   needs no other library
#
# None contains liboutboard: so a program has one copy of it. All variants of liboutboard fit, so
# only the profile full builds them. The header client_calls.h is library.sh's.
source "$(dirname "$0")/common.sh"

[ "$VARIANT" = full ] || exit 0
"$BUILD/cargo-usable.sh" || fail "no cargo is new enough to build crates/: run 'make setup'"

export OUTBOARD_LIB_DIR=$LIB_DIR OUTBOARD_INCLUDE_DIR=$INCLUDE_DIR CARGO_TARGET_DIR=$OUT/cargo
mkdir -p "$LIB_DIR/pkgconfig" "$INCLUDE_DIR/outboard"

say "building the C libraries of volumes, servers and remote clients"
# outboard-cli, which has no library, only adds features of its dependencies: so cargo test uses the
# same objects.
cargo build --quiet --release --locked --jobs "$JOBS" --package outboard-c --package outboard-cli \
	--lib --manifest-path "$REPO/crates/Cargo.toml"
cargo build --quiet --release --locked --jobs "$JOBS" --package outboard-client --lib \
	--manifest-path "$REPO/crates/Cargo.toml"

# Whether a file is newer than all others.
is_newest() {
	local input
	for input in "${@:2}"; do
		[ "$1" -nt "$input" ] || return
	done
}

# A relocatable object of the functions that a header declares. They are its public names.
# Everything else stays local, also Rust's own library: a program may contain another one.
make_object() {
	local header=$1 archive=$2 object=$3
	grep -hoE '\bob_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u >"$object.declared"
	nm --defined-only --extern-only --format=just-symbols "$archive" 2>/dev/null | sort -u |
		comm -12 - "$object.declared" >"$object.names"
	sed 's/^/--undefined=/' "$object.names" >"$object.roots"
	ld -r --gc-sections -o "$object.all" "@$object.roots" "$archive"
	# Rust's library has bitcode for its own linker, of which ld has made nonsense.
	objcopy --keep-global-symbols="$object.names" --remove-section=.llvmbc \
		--remove-section=.llvmcmd "$object.all" "$object"
	rm "$object.all"
}

# Makes liboutboard-NAME of a header of a crate and the crate's archive. The rest: other libraries.
make_library() {
	local name=outboard-$1 header=$REPO/crates/$2/include/outboard/$1.h
	local archive=$CARGO_TARGET_DIR/release/$3 soname=liboutboard-$1.so.0
	local object=$OBJECTS/$name-library/$1.o
	mkdir -p "${object%/*}"
	install -C -m 644 "$header" "$INCLUDE_DIR/outboard/"
	if is_newest "$LIB_DIR/$soname" "$archive" "$header" "$LIB_DIR/liboutboard.so.0" \
		"$BUILD/c-libraries.sh" "$BUILD/$name.pc.in"; then
		return
	fi
	make_object "$header" "$archive" "$object"
	rm -f "$LIB_DIR/lib$name.a"
	ar rcsD "$LIB_DIR/lib$name.a" "$object"
	# nodelete: the hook for fork() stays to the end of the process.
	# shellcheck disable=SC2016 # the dynamic loader expands $ORIGIN
	gcc -shared -o "$LIB_DIR/$soname.new" "$object" -L"$LIB_DIR" "${@:4}" -pthread \
		-Wl,-soname,"$soname" -Wl,--version-script="$BUILD/exports.map" -Wl,--gc-sections \
		-Wl,-z,defs -Wl,-z,text -Wl,-z,noexecstack -Wl,-z,nodelete -Wl,-rpath,'$ORIGIN'
	ln -sf "$soname" "$LIB_DIR/lib$name.so"
	sed -e "s,@PREFIX@,${INCLUDE_DIR%/*}," -e "s,@LIB_DIR@,$LIB_DIR," \
		-e "s,@VERSION@,$OUTBOARD_VERSION," "$BUILD/$name.pc.in" \
		>"$LIB_DIR/pkgconfig/$name.pc"
	mv "$LIB_DIR/$soname.new" "$LIB_DIR/$soname"
}

make_library volume outboard-c liboutboard_volume_c.a -loutboard -lm
make_library server outboard-c liboutboard_volume_c.a -loutboard -lm
make_library client outboard-client liboutboard_client.a
