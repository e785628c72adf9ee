#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the program of one variant: out/bin/outboard for the profile full, else
# out/bin/outboard-VARIANT. The library is linked in.
source "$(dirname "$0")/common.sh"

"$BUILD/cargo-usable.sh" || fail "no cargo is new enough to build crates/: run 'make setup'"

export OUTBOARD_LIB_DIR=$LIB_DIR OUTBOARD_INCLUDE_DIR=$INCLUDE_DIR CARGO_TARGET_DIR=$OUT/cargo

say "building the program ($VARIANT)"
cargo build --quiet --release --locked --jobs "$JOBS" --package outboard-cli \
	--manifest-path "$REPO/crates/Cargo.toml"
mkdir -p "$(dirname "$PROGRAM")"
install -C -m 755 "$CARGO_TARGET_DIR/release/outboard" "$PROGRAM"
