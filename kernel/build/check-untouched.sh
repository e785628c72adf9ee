#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Rule zero: compares the tree that the kernel was built from with its original,
# a tarball or a directory. The link arch/outboard is the only difference allowed.
source "$(dirname "$0")/common.sh"

# Prints what differs from the tarball. tar tells changed and missing files
# from standard output's list of all; what is in no tarball is found by that list.
compare_with_tarball() {
	local work=$1
	tar --compare --verbose --strip-components=1 -C "$TREE" -f "$original" \
		>"$work/report" 2>"$work/errors" || true
	# The top directory itself is stripped to nothing.
	grep -v '^tar: : Warning' "$work/errors" || true
	# Owner and mode are the unpacker's; a changed time alone is no change.
	grep -E ' (differs?|not linked to .*)$' "$work/report" |
		grep -vE ': (Uid|Gid|Mode|Mod time) differs$' || true
	sed -n 's,^[^/]*/\(..*\)$,\1,p' "$work/report" | sed 's,/$,,' | sort >"$work/members"
	find "$TREE" -mindepth 1 -printf '%P\n' | sort | comm -13 "$work/members" - |
		grep -vx 'arch/outboard' | sed 's/$/: not in the original/' || true
}

compare_with_directory() {
	diff -rq --no-dereference --exclude=.git "$original" "$TREE" |
		grep -vxF "Only in $TREE/arch: outboard" || true
}

[ -L "$TREE/arch/outboard" ] || fail "nothing to check: $TREE is missing; run 'make' first"
original=$(realpath -e -- "$LINUX_SOURCE") || fail "there is no $LINUX_SOURCE"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -d "$original" ]; then
	compare_with_directory >"$work/differences"
else
	compare_with_tarball "$work" >"$work/differences"
fi
if [ -s "$work/differences" ]; then
	cat "$work/differences" >&2
	fail "the Linux tree has been changed (see above): it is no longer as in $original"
fi
say "the Linux tree is untouched: all files are as in $original"
