#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Collects the modules of one variant: the components in one archive beside the
# library; in the profile full also all of them, the kernel's own tests included, in
# out/modules, which is what tests/kernel/test_kunit.py and test_selftests.py load from.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

collect_for_tests() {
	local wanted=() object module
	while read -r object; do
		wanted+=("$OBJECTS/${object%.o}.ko")
	done <"$OBJECTS/modules.order"
	mkdir -p "$OUT/modules"
	# What is no longer made must not be tested.
	for module in "$OUT"/modules/*.ko; do
		grep -q "/$(basename "${module%.ko}").o$" "$OBJECTS/modules.order" || rm -f "$module"
	done
	install -C -m 644 "${wanted[@]}" "$OUT/modules/"
}

mkdir -p "$LIB_DIR"
leave_out=()
if [ "$VARIANT" = full ] && [ "$MODULES" = y ]; then
	collect_for_tests
	mapfile -t leave_out < <(sed -n 's/^# Modules only for tests: //p' "$REPO"/kernel/configs/*.config | tr ' ' '\n')
fi
python3 "$BUILD/components.py" "$OBJECTS" "$LIB_DIR/outboard-components" --leave-out "${leave_out[@]}"
