// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: shared memory of this port, and of the other ports.
 *
 * Seals keep the size of all memory, so that no access faults. They also keep all others from
 * writing to a port's rings: F_SEAL_FUTURE_WRITE allows only the mapping that the owner has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "raw.h"
#include "hub.h"

#define MAGIC 0x6275686fu	/* "ohub" */

/* Headers of older hosts lack these. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* ---- this port --------------------------------------------------------------- */

/* A host may insist that such a file is never executable. Older hosts do not know the flag. */
static int new_file(const char *name)
{
	int fd = raw_memfd(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = raw_memfd(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

/* The host would send SIGXFSZ. */
static bool is_size_allowed(size_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= size;
}

/*
 * Maps a new file and seals it. A fork()ed child does not get the mapping. 0 or -errno; *fd is -1
 * or open.
 */
static int create(const char *name, size_t size, int seals, int32_t *fd, void **address)
{
	*fd = new_file(name);
	if (*fd < 0)
		return -errno;
	if (!is_size_allowed(size))
		return -EFBIG;
	if (ftruncate(*fd, (off_t)size))
		return -errno;
	*address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
	if (*address == MAP_FAILED) {
		*address = NULL;
		return -errno;
	}
	madvise(*address, size, MADV_DONTFORK);
	madvise(*address, size, MADV_DONTDUMP);
	return raw_fcntl(*fd, F_ADD_SEALS, seals) ? -errno : 0;
}

int ob_hub_memory_create(struct ob_hub *hub)
{
	void *control = NULL, *bell = NULL;
	int error;

	error = create("outboard-hub", OB_HUB_MEMORY_BYTES, SIZE_SEALS | F_SEAL_FUTURE_WRITE,
		       &hub->entry.memory, &control);
	hub->control = control;
	if (error)
		return error;
	hub->control->magic = MAGIC;
	hub->control->version = OB_HUB_VERSION;
	hub->control->number = hub->entry.number;
	hub->control->port = hub->port;
	error = create("outboard-hub-bell", OB_HUB_BELL_BYTES, SIZE_SEALS, &hub->entry.bell, &bell);
	hub->bell = bell;
	return error;
}

void ob_hub_memory_free(struct ob_hub *hub)
{
	if (hub->control)
		munmap(hub->control, OB_HUB_MEMORY_BYTES);
	if (hub->bell)
		munmap(hub->bell, OB_HUB_BELL_BYTES);
}

char *ob_hub_ring(const struct ob_hub *hub, unsigned int port)
{
	return (char *)hub->control + OB_HUB_CONTROL_BYTES + port * OB_HUB_RING_BYTES;
}

/* ---- other ports ------------------------------------------------------------- */

static int map(int fd, off_t offset, size_t size, int protection, const void **address)
{
	void *mapping = mmap(NULL, size, protection, MAP_SHARED | MAP_NORESERVE, fd, offset);

	if (mapping == MAP_FAILED)
		return -errno;
	madvise(mapping, size, MADV_DONTFORK);
	madvise(mapping, size, MADV_DONTDUMP);
	*address = mapping;
	return 0;
}

static int map_memory(struct ob_hub_peer *peer, int fd, unsigned int own_port)
{
	off_t ring = (off_t)(OB_HUB_CONTROL_BYTES + own_port * OB_HUB_RING_BYTES);
	int error = map(fd, 0, OB_HUB_CONTROL_BYTES, PROT_READ, (const void **)&peer->control);

	if (!error)
		error = map(fd, ring, OB_HUB_RING_BYTES, PROT_READ, (const void **)&peer->ring);
	return error;
}

static int open_memory(struct ob_hub_peer *peer, const struct ob_hub *hub,
		       const struct ob_hub_entry *entry)
{
	int fd = ob_hub_open_memory(hub, entry);
	int error = fd < 0 ? fd : map_memory(peer, fd, hub->port);

	if (fd >= 0)
		raw_close(fd);
	if (error)
		return error;
	fd = ob_hub_open_bell(hub, entry);
	error = fd < 0 ? fd : map(fd, 0, OB_HUB_BELL_BYTES, PROT_READ | PROT_WRITE,
				  (const void **)&peer->bell);
	if (fd >= 0)
		raw_close(fd);
	return error;
}

static int check_control(const struct ob_hub_peer *peer, unsigned int port)
{
	const struct ob_hub_control *control = peer->control;

	return control->magic == MAGIC && control->version == OB_HUB_VERSION &&
	       control->number == peer->number && control->port == port ? 0 : -EINVAL;
}

int ob_hub_peer_open(const struct ob_hub *hub, unsigned int port, const struct ob_hub_entry *entry,
		     struct ob_hub_peer **new)
{
	struct ob_hub_peer *peer = calloc(1, sizeof(*peer));
	int error;

	if (!peer)
		return -ENOMEM;
	peer->number = entry->number;
	error = open_memory(peer, hub, entry);
	if (!error)
		error = check_control(peer, port);
	if (error) {
		ob_hub_peer_free(peer);
		return error;
	}
	*new = peer;
	return 0;
}

void ob_hub_peer_free(struct ob_hub_peer *peer)
{
	if (peer->control)
		munmap((void *)peer->control, OB_HUB_CONTROL_BYTES);
	if (peer->ring)
		munmap((void *)peer->ring, OB_HUB_RING_BYTES);
	if (peer->bell)
		munmap(peer->bell, OB_HUB_BELL_BYTES);
	free(peer);
}
