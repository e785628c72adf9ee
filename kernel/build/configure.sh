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
vfs) fragments+=(vfs crypto) ;;
net) fragments+=(net) ;;
full) fragments+=(vfs crypto net clients) ;;
esac
[ "$DEBUG" = 0 ] || fragments+=(debug)
[[ $SANITIZE != *address* ]] || fragments+=(kasan)
[[ $SANITIZE != *undefined* ]] || fragments+=(ubsan)
if [ "$SUITES" = y ]; then
	case $PROFILE in
	vfs) fragments+=(suites) ;;
	full) fragments+=(suites suites-full) ;;
	*) fragments+=(crypto suites) ;;
	esac
	[ "$DEBUG" = 0 ] || fragments+=(suites-debug)
	[[ $SANITIZE != *undefined* ]] || fragments+=(suites-ubsan)
fi
# Last, for it takes back what the others ask for.
if [ "$MMU" = n ]; then
	fragments+=(nommu)
	case $PROFILE in vfs | full) fragments+=(nommu-vfs) ;; esac
fi
[ "$SMP" = y ] || fragments+=(up)
files=("${fragments[@]/#/$REPO/kernel/configs/}")
files=("${files[@]/%/.config}")

# Without an MMU there are no modules.
[ "$MMU" = y ] || BUILTIN=all

identity=$(cat "$OUT/source/identity" "${files[@]}" "$REPO"/kernel/arch/Kconfig* \
	"$REPO"/kernel/arch/include/asm/{,fpu/}*.h "$0" - <<<"$BUILTIN" | sha256sum)
stamp=$OBJECTS/outboard-configured
if [ -f "$OBJECTS/.config" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$identity" ]; then
	exit 0
fi

mkdir -p "$OBJECTS"
wishes=$OBJECTS/outboard.config
# One line for each symbol: a later fragment overrides an earlier one.
cat "${files[@]}" | awk -v builtin="$BUILTIN" -v identity="${identity:0:16}" '
	BEGIN {
		count = split(builtin, names)
		for (i = 1; i <= count; i++)
			linked[names[i]] = 1
		count = 0
	}
	match($0, /^(# )?CONFIG_[A-Za-z0-9_]+/) {
		name = substr($0, RSTART, RLENGTH)
		sub(/^# /, "", name)
		if (!(name in line))
			order[++count] = name
		wanted = substr(name, 8)
		if (/=m$/ && ("all" in linked || wanted in linked)) {
			sub(/=m$/, "=y")
			delete linked[wanted]
		}
		line[name] = $0
	}
	END {
		delete linked["all"]
		for (wanted in linked) {
			print "outboard: BUILTIN: kernel/configs has no component " wanted \
				" in this profile" >"/dev/stderr"
			exit 1
		}
		print "CONFIG_OUTBOARD_IDENTITY=\"" identity "\""
		for (i = 1; i <= count; i++)
			print line[order[i]]
	}' >"$wishes" || exit 1

say "configuring $VARIANT ($(grep -vc '^#' "$wishes") options from: ${fragments[*]})"
linux_make -s KCONFIG_ALLCONFIG="$wishes" allnoconfig

# What a component that is linked in needs, Kconfig links in too.
refused=$(awk -v builtin="$BUILTIN" '
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
		if (got != want && !(builtin != "" && want == "m" && got == "y"))
			print "  " name " is " got ", not " want
	}' "$OBJECTS/.config" "$wishes")
if [ -n "$refused" ]; then
	printf '%s\n' "$refused" >&2
	fail "Kconfig did not grant what kernel/configs asks for (see above)"
fi
sed -n 's/^# Objects: about //p' "${files[@]}" |
	awk '{ sum += $1 } END { print sum + 0 }' >"$OBJECTS/outboard-estimate"
printf '%s\n' "$identity" >"$stamp"
