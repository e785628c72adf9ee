#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs what has been built below $DESTDIR$PREFIX: program, libraries, headers, pkg-config file,
# the Python package, what gdb needs, manual pages, completions. Names of functions stay in the
# program and the library: gdb and profilers of users need them.
source "$(dirname "$0")/common.sh"

# Those that are made of crates, the last one last.
libraries=(volume server client)
if [ ! -x "$PROGRAM" ] ||
	{ [ "$VARIANT" = full ] && [ ! -e "$LIB_DIR/liboutboard-${libraries[-1]}.so.0" ]; }; then
	make --no-print-directory -C "$REPO" program
fi

prefix=${PREFIX:-/usr/local}
[ "${prefix#/}" != "$prefix" ] || fail "PREFIX=$prefix must be an absolute path"
[[ $prefix =~ $PLAIN_PATH ]] ||
	fail "PREFIX=$prefix has characters that pkg-config refuses; DESTDIR may have any"
target=${DESTDIR:-}$prefix

install -d "$target/bin" "$target/lib/pkgconfig" "$target/include/outboard" ||
	fail "$target cannot be written: choose another PREFIX, or install as root"
install -m 755 "$PROGRAM" "$target/bin/outboard"
install -m 644 "$LIB_DIR/liboutboard.so.0" "$target/lib/liboutboard.so.0"
strip --strip-debug "$target/bin/outboard" "$target/lib/liboutboard.so.0"
ln -sf liboutboard.so.0 "$target/lib/liboutboard.so"
install -m 644 "$LIB_DIR/liboutboard.a" "$LIB_DIR/outboard-components" \
	"$LIB_DIR/liboutboard-components.a" "$target/lib/"
# Only the profile full has them.
for library in "${libraries[@]}"; do
	name=liboutboard-$library
	[ -e "$LIB_DIR/$name.so.0" ] || continue
	install -m 644 "$LIB_DIR/$name.so.0" "$LIB_DIR/$name.a" "$target/lib/"
	strip --strip-debug "$target/lib/$name.so.0" "$target/lib/$name.a"
	ln -sf "$name.so.0" "$target/lib/$name.so"
done
install -d "$target/lib/outboard_gdb"
install -m 644 "$LIB_DIR/outboard-gdb.py" "$LIB_DIR/outboard-types.o" "$target/lib/"
install -m 644 "$LIB_DIR"/outboard_gdb/*.py "$target/lib/outboard_gdb/"
ln -sf outboard-gdb.py "$target/lib/liboutboard.so.0-gdb.py"
install -m 644 "$INCLUDE_DIR"/outboard/*.h "$target/include/outboard/"
# Three directories below the library, which the package finds by that.
package=$target/lib/python3/dist-packages/outboard
install -d "$package"
install -m 644 "$REPO"/python/outboard/*.py "$REPO/python/outboard/py.typed" "$package/"
# With all paths below the prefix, pkg-config can move them: --define-variable=prefix=...
# shellcheck disable=SC2016 # pkg-config expands ${prefix}
for file in "$LIB_DIR"/pkgconfig/*.pc; do
	sed -e "s,^prefix=.*,prefix=$prefix," -e 's,^libdir=.*,libdir=${prefix}/lib,' \
		"$file" >"$target/lib/pkgconfig/${file##*/}"
done

# A page for the program, and one for each command that it names there; of the day of the last
# change.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$(git -C "$REPO" log -1 --format=%ct 2>/dev/null || date +%s)
	export SOURCE_DATE_EPOCH
fi
manual=$target/share/man/man1
install -d "$manual"
"$PROGRAM" manual >"$manual/outboard.1"
sed -n 's/^\\fBoutboard\\-\(.*\)\\fR(1)$/\1/; T; s/\\//g; p' "$manual/outboard.1" |
	while read -r command; do
		"$PROGRAM" manual "$command" >"$manual/outboard-$command.1"
	done

# Where each shell looks for the completions of a program.
while read -r shell file; do
	install -d "$(dirname "$target/share/$file")"
	"$PROGRAM" completions "$shell" >"$target/share/$file"
done <<-END
	bash bash-completion/completions/outboard
	zsh zsh/site-functions/_outboard
	fish fish/vendor_completions.d/outboard.fish
END
# Programs find the libraries of these directories by the loader's cache only.
if [ "$target" = /usr/local ] || [ "$target" = /usr ]; then
	/sbin/ldconfig || say "run ldconfig as root, or programs do not find $target/lib"
fi
say "installed in $target"
