#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel's link, instead of scripts/link-vmlinux.sh. Started by link.sh in
# the object directory, with kbuild's variables.
#
# 1. kernel-all.o   everything, laid out by the arch's vmlinux.lds. A function or
#                   variable __wrap_NAME in the arch replaces NAME for all other files.
# 2. kernel-text.o  all code in the one section .text. From here on the
#                   distance of any function from _text is fixed, whatever the kernel is
#                   linked into; so names can be attached now:
# 3. kallsyms.o     the table of names, by the tree's scripts/kallsyms.
# 4. kernel.o       both; only the gate, ob_kernel_*, is left global.
set -euo pipefail

directory=outboard-link
mkdir -p "$directory"
: "${srctree:?this script is started by link.sh}"
# Kbuild's variables are lists of words.
read -ra ldflags <<<"$KBUILD_LDFLAGS"
read -ra libraries <<<"${KBUILD_VMLINUX_LIBS:-}"
read -ra compiler <<<"$CC"
read -ra include <<<"$LINUXINCLUDE"
here=$(dirname "$0")

wraps=()
while read -r name; do
	wraps+=("--wrap=$name")
done < <("$NM" --defined-only arch/outboard/built-in.a 2>/dev/null | sed -n 's/^.* [TDBR] __wrap_//p' | sort -u)

"$LD" "${ldflags[@]}" -r --script="$KBUILD_LDS" "${wraps[@]}" -o "$directory/kernel-all.o" \
	--whole-archive vmlinux.a .vmlinux.export.o init/version-timestamp.o --no-whole-archive \
	--start-group "${libraries[@]}" --end-group
"$LD" "${ldflags[@]}" -r --script="$here/text.lds" -o "$directory/kernel-text.o" "$directory/kernel-all.o"
rm "$directory/kernel-all.o"

others=$(readelf -SW "$directory/kernel-text.o" |
	sed -n 's/^ *\[ *[0-9]*\] \([^ ]*\) .* [A-Z]*X[A-Z]* .*$/\1/p' | grep -vx '\.text' || true)
if [ -n "$others" ]; then
	echo "outboard: kernel/build/text.lds must list these sections of code: ${others//$'\n'/ }" >&2
	exit 1
fi

"$NM" -n --defined-only "$directory/kernel-text.o" | sed -f "$srctree/scripts/mksysmap" |
	awk '$2 ~ /^[tTW]$/' >"$directory/names"
scripts/kallsyms "$directory/names" >"$directory/kallsyms.S"
"${compiler[@]}" -D__ASSEMBLY__ -D__KERNEL__ "${include[@]}" -c -o "$directory/kallsyms.o" "$directory/kallsyms.S"

"$LD" "${ldflags[@]}" -r -o "$directory/kernel-named.o" "$directory/kernel-text.o" "$directory/kallsyms.o"
# Dodge __ksymtab, __ksymtab_gpl: the dynamic linker writes addresses to them; Linux marks them as read-only.
writable=()
for section in __ksymtab __ksymtab_gpl; do
	writable+=(--set-section-flags "$section=alloc,load,data,contents")
done
"$OBJCOPY" --wildcard --keep-global-symbol='ob_kernel_*' "${writable[@]}" \
	"$directory/kernel-named.o" "$directory/kernel-new.o"
rm "$directory/kernel-text.o" "$directory/kernel-named.o" "$directory/kallsyms.S"

# What the kernel may ask of its host: hypercalls only. (The last link says where static data end: lockdep asks.)
missing=$("$NM" -u "$directory/kernel-new.o" | awk '{ print $2 }' |
	grep -vxE 'ob_host_[a-z0-9_]+|_GLOBAL_OFFSET_TABLE_|_end' || true)
if [ -n "$missing" ]; then
	echo "outboard: the kernel uses what nobody defines: ${missing//$'\n'/ }" >&2
	exit 1
fi
mv "$directory/kernel-new.o" "$directory/kernel.o"
