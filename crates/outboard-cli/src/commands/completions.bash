# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The description of the command line lacks two things: the options after "mount -o", and the
# mounted images, for "umount". All else is _outboard's, which is made from that description.

_outboard_mounted() {
	local point kind
	while read -r _ point kind _; do
		point=$(printf '%b' "$point")
		[[ $kind != fuse.outboard || $point != "$1"* ]] || COMPREPLY+=("$point")
	done </proc/self/mounts
}

# Readline cuts "uid=0,gid=0" at its "=". The word after "=" is a value, up to the next comma.
_outboard_more() {
	local current=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD before words='@OPTIONS@'
	_outboard "$@"
	before=" ${COMP_WORDS[*]:1:COMP_CWORD-1} "
	[[ $current != = ]] || at=$((at - 1)) words=
	while [[ $at -gt 2 && ${COMP_WORDS[at - 1]} == = ]]; do
		at=$((at - 2))
		[[ $current == *,* ]] || words=
	done
	if [[ $before == *' mount '* && ${COMP_WORDS[at - 1]} == -o ]]; then
		mapfile -t COMPREPLY < <(
			compgen -P "${current%"${current##*,}"}" -W "$words" -- "${current##*,}"
		)
		compopt -o nospace +o default +o bashdefault
	elif [[ $before == *' umount '* && $current != -* ]]; then
		COMPREPLY=()
		_outboard_mounted "$current"
		compopt -o filenames
	fi
}

complete -F _outboard_more -o nosort -o bashdefault -o default outboard
