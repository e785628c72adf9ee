/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames on a connected stream socket, as passt and QEMU's "-netdev stream" have them: each frame
 * without its virtio header, behind its length as 4 bytes, big-endian.
 */
#ifndef OUTBOARD_DEVICES_NET_STREAM_H
#define OUTBOARD_DEVICES_NET_STREAM_H

#define OB_NET_STREAM_LENGTH_BYTES 4u

#endif
