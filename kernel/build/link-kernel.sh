#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel's link, instead of scripts/link-vmlinux.sh. Started by link.sh in
# the object directory, with kbuild's variables.
#
# 1. kernel-all.o   everything, laid out by the arch's vmlinux.lds. A function or
#                   variable __wrap_NAME in the arch replaces NAME for all other files.
# 2. kernel-text.o  all code in the one section .text. From here on the
#                   distance of any function from _text is fixed, wherever the kernel is
#                   loaded; so names can be attached now:
# 3. kallsyms.o     the table of names, by the tree's scripts/kallsyms.
# 4. kernel.image   both, as one position-independent ELF file: no interpreter, no undefined
#                   symbols, nothing exported but the entry point (outboard/tables.h). Its
#                   addresses are right where it is linked to; the loader changes them if that
#                   place is taken (hypercall/loader/load.c).
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
done < <("$NM" --defined-only arch/outboard/built-in.a 2>/dev/null |
	sed -n 's/^.* [TDBR] __wrap_//p' | sort -u)

"$LD" "${ldflags[@]}" -r --script="$KBUILD_LDS" "${wraps[@]}" -o "$directory/kernel-all.o" \
	--whole-archive vmlinux.a .vmlinux.export.o init/version-timestamp.o --no-whole-archive \
	--start-group "${libraries[@]}" --end-group
"$LD" "${ldflags[@]}" -r --script="$here/text.lds" \
	-o "$directory/kernel-text.o" "$directory/kernel-all.o"
rm "$directory/kernel-all.o"

others=$(readelf -SW "$directory/kernel-text.o" |
	sed -n 's/^ *\[ *[0-9]*\] \([^ ]*\) .* [A-Z]*X[A-Z]* .*$/\1/p' | grep -vx '\.text' || true)
if [ -n "$others" ]; then
	echo "outboard: kernel/build/text.lds must list these sections of code:" \
		"${others//$'\n'/ }" >&2
	exit 1
fi

"$NM" -n --defined-only "$directory/kernel-text.o" | sed -f "$srctree/scripts/mksysmap" |
	awk '$2 ~ /^[tTW]$/' >"$directory/names"
scripts/kallsyms "$directory/names" >"$directory/kallsyms.S"
"${compiler[@]}" -D__ASSEMBLY__ -D__KERNEL__ "${include[@]}" -c \
	-o "$directory/kallsyms.o" "$directory/kallsyms.S"

"$LD" "${ldflags[@]}" -r \
	-o "$directory/kernel-named.o" "$directory/kernel-text.o" "$directory/kallsyms.o"
# Dodge .rodata, __ksymtab, __ksymtab_gpl, __param, __modver, outboard_rodata_end: the kernel never
# writes to these; the sections of single files in them were not all marked so.
read_only=()
for section in .rodata __ksymtab __ksymtab_gpl __param __modver outboard_rodata_end; do
	read_only+=(--set-section-flags "$section=alloc,load,readonly,data,contents")
done
"$OBJCOPY" --keep-global-symbol=ob_image_start "${read_only[@]}" \
	"$directory/kernel-named.o" "$directory/kernel.o"
rm "$directory/kernel-text.o" "$directory/kernel-named.o" "$directory/kallsyms.S"

missing=$("$NM" -u "$directory/kernel.o" | awk '{ print $2 }' |
	grep -vx _GLOBAL_OFFSET_TABLE_ || true)
if [ -n "$missing" ]; then
	echo "outboard: the kernel uses what nobody defines: ${missing//$'\n'/ }" >&2
	exit 1
fi

# The address is free in programs, also in those with an address sanitizer, and below the
# platform's own regions. -z notext: addresses in read-only data need no change at this address.
"$LD" "${ldflags[@]}" -shared -Bsymbolic --entry=ob_image_start -Ttext-segment=0x1e0000000000 \
	--build-id=sha1 --hash-style=gnu -z noexecstack -z notext \
	-z separate-code -z norelro -z max-page-size=4096 -z pack-relative-relocs \
	-o "$directory/kernel-new.image" "$directory/kernel.o"
rm "$directory/kernel.o"
# Debuggers read these where the image is not at that address (lib/debugger.c).
"$here/section-symbols.py" "$directory/kernel-new.image" "$directory/symbols"
"$OBJCOPY" --add-section "outboard_symbols=$directory/symbols" "$directory/kernel-new.image"
rm "$directory/symbols"
"$here/check-names.py" "$directory/names" "$directory/kernel-new.image"
"$here/check-image.py" "$directory/kernel-new.image"
mv "$directory/kernel-new.image" "$directory/kernel.image"
