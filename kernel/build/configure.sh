#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Configures the kernel of one variant: everything is off but what the
# fragments in kernel/configs ask for, and what these need. Fails if Kconfig did not
# grant a wish, so that a fragment never promises what the kernel lacks.
source "$(dirname "$0")/common.sh"
lock_directory "$OBJECTS"

fragments=(base dev)
case $PROFILE in
vfs) fragments+=(vfs) ;;
net) fragments+=(net) ;;
full) fragments+=(vfs net kunit) ;;
esac
[ "$DEBUG" = 0 ] || fragments+=(debug)
# Last, for it takes back what the others ask for.
if [ "$MMU" = n ]; then
	fragments+=(nommu)
	case $PROFILE in vfs | full) fragments+=(nommu-vfs) ;; esac
fi
files=("${fragments[@]/#/$REPO/kernel/configs/}")
files=("${files[@]/%/.config}")

identity=$(cat "$OUT/source/identity" "${files[@]}" "$REPO"/kernel/arch/Kconfig* "$0" | sha256sum)
stamp=$OBJECTS/outboard-configured
if [ -f "$OBJECTS/.config" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$identity" ]; then
	exit 0
fi

mkdir -p "$OBJECTS"
wishes=$OBJECTS/outboard.config
# One line for each symbol: a later fragment overrides an earlier one.
cat "${files[@]}" | awk '
	match($0, /^(# )?CONFIG_[A-Za-z0-9_]+/) {
		name = substr($0, RSTART, RLENGTH)
		sub(/^# /, "", name)
		if (!(name in line))
			order[++count] = name
		line[name] = $0
	}
	END {
		for (i = 1; i <= count; i++)
			print line[order[i]]
	}' >"$wishes"

say "configuring $VARIANT ($(grep -vc '^#' "$wishes") options from: ${fragments[*]})"
linux_make -s KCONFIG_ALLCONFIG="$wishes" allnoconfig

refused=$(awk '
	FNR == NR {
		if (match($0, /^CONFIG_[A-Za-z0-9_]+=/))
			have[substr($0, 1, RLENGTH - 1)] = substr($0, RLENGTH + 1)
		next
	}
	/^# CONFIG_/ && ($2 in have) {
		print "  " $2 " is " have[$2] ", not off"
	}
	match($0, /^CONFIG_[A-Za-z0-9_]+=/) {
		name = substr($0, 1, RLENGTH - 1)
		want = substr($0, RLENGTH + 1)
		got = (name in have) ? have[name] : "n"
		if (got != want)
			print "  " name " is " got ", not " want
	}' "$OBJECTS/.config" "$wishes")
if [ -n "$refused" ]; then
	printf '%s\n' "$refused" >&2
	fail "Kconfig did not grant what kernel/configs asks for (see above)"
fi
sed -n 's/^# Objects: about //p' "${files[@]}" | awk '{ sum += $1 } END { print sum + 0 }' >"$OBJECTS/outboard-estimate"
printf '%s\n' "$identity" >"$stamp"
