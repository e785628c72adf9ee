/* SPDX-License-Identifier: GPL-2.0-only */
/* Frames for a kernel that must survive them. Its interface has the addresses below. */
#ifndef OUTBOARD_TESTS_NET_FUZZ_FRAMES_H
#define OUTBOARD_TESTS_NET_FUZZ_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_PORT 7007
#define FUZZ_ROOM 4096

/* 10.1.0.1, fd00::1, 02:00:00:00:00:01 */

/*
 * Makes a frame with its virtio header and returns its length, header included. An eighth of all is
 * random bytes, the others are packets of many protocols with some bytes changed.
 */
size_t net_fuzz_frame(uint64_t *state, unsigned char frame[FUZZ_ROOM]);

#endif
