#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Linux's NFS server in one kernel, with the tools of a distribution, and its client in another.
# Both kernels are processes of the user who calls this: no step needs root.
#
#   nfs.sh IMAGE
#
# IMAGE is a Debian system with the package nfs-kernel-server (docs/nfs.md says how to make one). It
# stays as it is: the files of the server are in IMAGE.nfs.qcow2, over the image.
set -euo pipefail

image=$1
work=$(mktemp -d)

on_server() {
	outboard run --on "unix:$work/server" -- "$@"
}

on_client() {
	outboard run --on "unix:$work/client" -- "$@"
}

finish() {
	for kernel in client server; do
		[ ! -e "$work/$kernel" ] || outboard halt "unix:$work/$kernel"
	done
	rm -r "$work"
}
trap finish EXIT

# Two kernels on one Ethernet segment, which is a file that both map.
outboard server --daemon --no-sandbox --overlay "$image.nfs.qcow2" \
	--net "hub:$work/segment,ip=10.1.0.1/24" "$image" "unix:$work/server"
outboard server --daemon --no-sandbox \
	--net "hub:$work/segment,ip=10.1.0.2/24" "$image" "unix:$work/client"

# A directory to export, for all machines of the segment. Root there is root here.
on_server mkdir -p /srv/share
on_server sh -c 'echo "/srv/share 10.1.0.0/24(rw,no_root_squash,no_subtree_check)" >/etc/exports'

# The services. The mount loads nfsd, which rpc.mountd serves.
on_server mount -t nfsd nfsd /proc/fs/nfsd
on_server exportfs -ra
on_server rpc.mountd --no-nfs-version 3
on_server rpc.nfsd --no-nfs-version 3 8
# For 90 seconds, clients of an earlier run could claim their locks, and all others wait.
on_server sh -c 'echo Y >/proc/fs/nfsd/v4_end_grace'

# The client writes files, and the server finds them in its own file system.
on_client mount -t nfs4 10.1.0.1:/srv/share /mnt
on_client sh -c 'date >/mnt/date'
on_server cat /srv/share/date

# A client holds a lock, and another one of the same file has to wait.
on_client flock /mnt/date sh -c '! flock --nonblock /mnt/date true'

on_client dd if=/dev/zero of=/mnt/zeros bs=1M count=256 conv=fsync
on_client umount /mnt
