#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Collects the modules of the profile full, which are the KUnit suites and what
# they test, in out/modules, all in one directory. 'modinfo -F depends' says
# which others a module needs.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

[ "$VARIANT" = full ] || exit 0
mkdir -p "$OUT/modules"
wanted=()
while read -r object; do
	wanted+=("$OBJECTS/${object%.o}.ko")
done <"$OBJECTS/modules.order"
[ ${#wanted[@]} -gt 0 ] || fail "the profile full has no modules: kernel/configs/kunit.config asks for some"

# What is no longer made must not be tested.
for module in "$OUT"/modules/*.ko; do
	grep -q "/$(basename "${module%.ko}").o$" "$OBJECTS/modules.order" || rm -f "$module"
done
install -C -m 644 "${wanted[@]}" "$OUT/modules/"
