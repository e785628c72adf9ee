# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What all build scripts share: where things are, which variant is built, how
# to call Linux's build. Sourced, never run.
#
# Input, from the environment:
#   PROFILE       base, vfs, net or full (default): which factions are linked
#   MMU=n         a kernel without CONFIG_MMU
#   SMP=n         a kernel without CONFIG_SMP: one vCPU
#   BUILTIN       components that are linked in: all, or a list as in "EXT4_FS XFS_FS"
#   MODULES=n     components that are not linked in are not built
#   DEBUG=1       a kernel that checks itself (locks, sleeping, lists, slabs)
#   SUITES=y      the kernel's own test suites too, as modules
#   SANITIZE      a kernel whose code the compiler checks: address, undefined or address,undefined
#   LINUX_SOURCE  directory or tarball of another Linux 6.12
#   JOBS          compile jobs at a time (default: the number of processors)

set -euo pipefail
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

# shellcheck disable=SC2034 # the scripts that source this file use these
{
	REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
	BUILD=$REPO/kernel/build
	OUT=$REPO/out
	JOBS=${JOBS:-$(nproc)}
	PROFILE=${PROFILE:-full}
	MMU=${MMU:-y}
	SMP=${SMP:-y}
	BUILTIN=${BUILTIN:-}
	MODULES=${MODULES:-y}
	DEBUG=${DEBUG:-0}
	SUITES=${SUITES:-n}
	SANITIZE=${SANITIZE:-}
	LINUX_SOURCE=${LINUX_SOURCE:-/usr/src/linux-source-6.12.tar.xz}
}
# Make, Linux's build, gcc's -Wl and pkg-config accept these characters in paths.
PLAIN_PATH='^[[:alnum:]_/.+@~-]*$'

say() {
	printf 'outboard: %s\n' "$*"
}

fail() {
	printf 'outboard: %s\n' "$*" >&2
	exit 1
}

# Linux's build and make refuse paths with blanks, colons and other characters. Below such a path,
# out/ is a link to a directory of the user's cache, and the build finds the checkout by a link in
# there. A link that exists stays, also when the user has another cache later.
build_elsewhere() {
	local checkout=$REPO elsewhere
	elsewhere=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/outboard-build
	elsewhere+=/$(sha256sum <<<"$checkout" | head -c 16)
	[ ! "$OUT/checkout" -ef "$checkout" ] || elsewhere=$(realpath "$OUT")
	[[ $elsewhere =~ $PLAIN_PATH ]] ||
		fail "cannot build in $checkout or in $elsewhere: both paths have characters that" \
			"make refuses; set XDG_CACHE_HOME to a directory without them"
	[ ! -d "$OUT" ] || [ -L "$OUT" ] || fail "$OUT is in the way: remove it"
	if ! [ "$OUT" -ef "$elsewhere" ] || [ ! -L "$elsewhere/checkout" ]; then
		mkdir -p "$elsewhere"
		ln -sfn "$checkout" "$elsewhere/checkout"
		ln -sfn "$elsewhere" "$OUT"
	fi
	OUT=$elsewhere
	REPO=$elsewhere/checkout
	# shellcheck disable=SC2034 # the scripts that source this file use these
	{
		BUILD=$REPO/kernel/build
		ARCH_LINK=../../../checkout/kernel/arch
	}
}

# The link to our part of the kernel, in the directory arch of the copy of Linux's source.
# shellcheck disable=SC2034 # source.sh uses it
ARCH_LINK=../../../../kernel/arch
[[ $REPO =~ $PLAIN_PATH ]] || build_elsewhere

case $PROFILE in
base | vfs | net | full) ;;
*) fail "PROFILE=$PROFILE is unknown: choose base, vfs, net or full" ;;
esac
case $MMU in
y | n) ;;
*) fail "MMU=$MMU is unknown: choose y or n" ;;
esac
case $SMP in
y | n) ;;
*) fail "SMP=$SMP is unknown: choose y or n" ;;
esac
case $MODULES in
y | n) ;;
*) fail "MODULES=$MODULES is unknown: choose y or n" ;;
esac
case $DEBUG in
0 | 1) ;;
*) fail "DEBUG=$DEBUG is unknown: choose 0 or 1" ;;
esac
case $SUITES in
y | n) ;;
*) fail "SUITES=$SUITES is unknown: choose y or n" ;;
esac
if [ "$SUITES" = y ] && [ "$MMU$MODULES" != yy ]; then
	fail "SUITES=y needs MMU=y and MODULES=y: the suites are modules"
fi
case $SANITIZE in
"" | address | undefined | address,undefined) ;;
*) fail "SANITIZE=$SANITIZE is unknown: choose address, undefined or address,undefined" ;;
esac

VARIANT=$PROFILE
[ -z "$BUILTIN" ] || VARIANT+=-builtin
[ "$MMU" = y ] || VARIANT+=-nommu
[ "$SMP" = y ] || VARIANT+=-up
[ "$DEBUG" = 0 ] || VARIANT+=-debug
[[ $SANITIZE != *address* ]] || VARIANT+=-asan
[[ $SANITIZE != *undefined* ]] || VARIANT+=-ubsan
[ "$SUITES" = n ] || VARIANT+=-suites

TREE=$OUT/source/linux
OBJECTS=$OUT/kernel/$VARIANT
# The profile full has the plain names; those of other variants say which they are.
# shellcheck disable=SC2034
{
	INCLUDE_DIR=$OUT/include
	LIB_DIR=$OUT/lib
	PROGRAM=$OUT/bin/outboard
	if [ "$VARIANT" != full ]; then
		LIB_DIR+=/$VARIANT
		PROGRAM+=-$VARIANT
	fi
	OUTBOARD_VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$REPO/crates/Cargo.toml")
}

HOST_CC=gcc
if command -v ccache >/dev/null; then
	HOST_CC="ccache gcc"
fi

# Two builds of the same source give the same bytes, and ccache finds them.
export KBUILD_BUILD_TIMESTAMP="Thu Jan  1 00:00:00 UTC 1970"
# ccache takes the dependencies from the compiler: it need not preprocess each file on its own.
export CCACHE_DEPEND=1
export KBUILD_BUILD_USER=outboard KBUILD_BUILD_HOST=outboard KBUILD_BUILD_VERSION=1

# One build at a time in a directory: holds its lock until the script ends.
lock_directory() {
	local lock
	mkdir -p "$1"
	exec {lock}>"$1/outboard-lock"
	if ! flock -n "$lock"; then
		say "waiting for another build in $1"
		flock "$lock"
	fi
}

# Linux's build of this variant: linux_make TARGET|VARIABLE=VALUE...
linux_make() {
	make --no-print-directory -C "$TREE" O="$OBJECTS" ARCH=outboard \
		CC="$HOST_CC" HOSTCC="$HOST_CC" "$@"
}
