#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Packages with maintainer scripts and a dependency: from a repository by apt-get, and by dpkg -i.
set -euo pipefail
make_package() { # NAME VERSION [LINE OF control]
	local tree=/repo/$1
	mkdir -p "$tree/DEBIAN" "$tree/usr/bin" "$tree/etc"
	printf '%s\n' "Package: $1" "Version: $2" "Description: $1" 'Architecture: all' \
		'Maintainer: A <a@example.org>' "${@:3}" >"$tree/DEBIAN/control"
	echo "/etc/$1.conf" >"$tree/DEBIAN/conffiles"
	echo "of $2" >"$tree/etc/$1.conf"
	local script
	for script in preinst postinst prerm postrm; do
		printf '#!/bin/sh\nset -e\necho "%s %s $*" >>/var/log/scripts\n' "$1" "$script" \
			>"$tree/DEBIAN/$script"
		chmod 755 "$tree/DEBIAN/$script"
	done
	printf '#!/bin/sh\necho %s\n' "$1 $2" >"$tree/usr/bin/$1"
	chmod 755 "$tree/usr/bin/$1"
	dpkg-deb --root-owner-group -b "$tree" /repo/pool
}
publish() {
	(cd /repo && apt-ftparchive packages pool >Packages && apt-ftparchive release . >Release)
	apt-get update
}
ran() { # LINE...: the scripts that ran since the last call.
	diff <(printf '%s\n' "$@") /var/log/scripts
	rm /var/log/scripts
}

mkdir -p /repo/pool
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/repo ./' >/etc/apt/sources.list
make_package base 1.0
make_package tool 1.0 'Depends: base (>= 1.0)'
publish
apt-get install -y tool
ran 'base preinst install' 'tool preinst install' 'base postinst configure ' \
	'tool postinst configure '
[ "$(tool)" = 'tool 1.0' ]

echo changed >/etc/tool.conf
make_package tool 2.0 'Depends: base (>= 1.0)'
publish
DEBIAN_FRONTEND=noninteractive apt-get -y -o Dpkg::Options::=--force-confold dist-upgrade
ran 'tool prerm upgrade 2.0' 'tool preinst upgrade 1.0 2.0' 'tool postrm upgrade 2.0' \
	'tool postinst configure 1.0'
[ "$(tool)" = 'tool 2.0' ]
[ "$(cat /etc/tool.conf)" = changed ]

apt-get purge -y base
grep -qx 'tool postrm remove' /var/log/scripts
grep -qx 'base postrm purge' /var/log/scripts
[ ! -e /usr/bin/tool ]
[ ! -e /etc/base.conf ]
dpkg -i /repo/pool/base_1.0_all.deb
[ "$(base)" = 'base 1.0' ]
# A package whose dependency is missing stays unpacked; apt-get puts that right.
dpkg --purge base
dpkg -i /repo/pool/tool_2.0_all.deb && exit 1
[ "$(dpkg-query -W -f '${Status}' tool)" = 'install ok unpacked' ]
apt-get -y --fix-broken install
[ "$(dpkg-query -W -f '${Status}' tool)" = 'install ok installed' ]
[ -z "$(dpkg --audit)" ]
