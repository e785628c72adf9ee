#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Rule zero: compares the tree that the kernel was built from with a fresh copy
# of its original. The link arch/outboard is the only difference allowed.
source "$(dirname "$0")/common.sh"

[ -d "$TREE" ] || fail "nothing to check: $TREE does not exist; run 'make' first"
original=$(realpath -e -- "$LINUX_SOURCE") || fail "there is no $LINUX_SOURCE"

fresh=$(mktemp -d "$OUT/source/fresh.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
"$BUILD/copy-source.sh" "$original" "$fresh"

differences=$(diff -rq --no-dereference "$fresh" "$TREE" || true)
unwanted=$(grep -vxF "Only in $TREE/arch: outboard" <<<"$differences" || true)
if [ -n "$unwanted" ]; then
	printf '%s\n' "$unwanted" >&2
	fail "the Linux tree has been changed (see above)"
fi
[ -L "$TREE/arch/outboard" ] || fail "$TREE/arch/outboard is missing"
say "the Linux tree is untouched: $(find "$fresh" -type f | wc -l) files are as in $original"
