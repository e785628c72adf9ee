#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# setup.sh FILE...: makes sure that the packages named in the files, one a line,
# are installed: by apt-get as root or with sudo, else one line says which are missing.
source "$(dirname "$0")/common.sh"

# Succeeds if a package, although not installed, is not needed: Rust may come
# from elsewhere, and so may the kernel's source.
replaced() {
	case $1 in
	cargo-web | rustc-web) "$BUILD/cargo-usable.sh" ;;
	rustfmt-web) cargo fmt --version ;;
	rust-web-clippy) cargo clippy --version ;;
	linux-source-6.12) [ "$LINUX_SOURCE" != /usr/src/linux-source-6.12.tar.xz ] ;;
	*) false ;;
	esac >/dev/null 2>&1
}

# Prints the packages of the given files that are not installed.
missing_packages() {
	local package
	sed -e 's/#.*//' -e '/^ *$/d' "$@" | while read -r package; do
		dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' ||
			replaced "$package" || printf '%s\n' "$package"
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

mapfile -t missing < <(missing_packages "$@")
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
	fail "please install these packages, then try again: ${missing[*]}"
fi

say "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { as_root apt-get -q update &&
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -q -y --no-install-recommends install "${missing[@]}"; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	fail "apt-get could not install these packages: ${missing[*]}"
fi
