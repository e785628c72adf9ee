#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# setup.sh LIST...: makes sure that the packages of kernel/build/packages-LIST.txt
# are installed: by apt-get as root or with sudo, else one line says which are missing.
source "$(dirname "$0")/common.sh"

# Prints the packages of the given lists that are not installed. A cargo that
# is new enough counts for the packages cargo-web and rustc-web, from wherever it comes.
missing_packages() {
	local list package
	for list in "$@"; do
		while read -r package; do
			case $package in
			'' | '#'*) continue ;;
			cargo-web | rustc-web) ! "$BUILD/cargo-usable.sh" || continue ;;
			linux-source-6.12) [ "$LINUX_SOURCE" = /usr/src/linux-source-6.12.tar.xz ] || continue ;;
			esac
			dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' ||
				printf '%s\n' "$package"
		done <"$BUILD/packages-$list.txt"
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
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	fail "apt-get could not install these packages: ${missing[*]}"
fi
