#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# File systems made in files, mounted by loop devices and below an overlay, and checked.
set -euo pipefail
for kind in ext4 xfs btrfs; do
	image=/srv/$kind.img
	tree=/mnt/$kind
	truncate -s 400M "$image"
	"mkfs.$kind" -q "$image"
	mkdir "$tree"
	mount -o loop "$image" "$tree"
	cp -a /usr/share/perl "$tree/perl"
	umount "$tree"
	mount -o loop "$image" "$tree"
	diff -r /usr/share/perl "$tree/perl"
	mkdir "$tree/upper" "$tree/work" "$tree/merged"
	mount -t overlay none -o \
		"lowerdir=/usr/share/perl,upperdir=$tree/upper,workdir=$tree/work" "$tree/merged"
	rm -r "$tree"/merged/*
	echo new >"$tree/merged/new"
	[ "$(ls "$tree/merged")" = new ]
	[ "$(find /usr/share/perl -type f | wc -l)" -gt 100 ]
	umount "$tree/merged"
	umount "$tree"
done
e2fsck -f -n /srv/ext4.img
xfs_repair -n /srv/xfs.img
btrfs check /srv/btrfs.img
[ -z "$(losetup -a)" ]
# A device with partitions.
truncate -s 100M /srv/disk.img
echo 'size=40M
size=40M' | sfdisk -q /srv/disk.img
mount -t devtmpfs none /dev
device=$(losetup -f -P --show /srv/disk.img)
mkfs.ext4 -q "${device}p2"
mount "${device}p2" /mnt
echo text >/mnt/file
umount /mnt
[ "$(debugfs -R 'cat file' "${device}p2")" = text ]
losetup -d "$device"
