// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that Linux makes again without a signal: a read of an interface's attribute while another
 * thread holds the lock of the network's configuration. The program never sees the code
 * (ERESTARTNOINTR) that stands for "again".
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "client.h"

#define READERS 3
#define READS 5000

static bool stop;

/* Holds the lock most of the time. */
static void *change_always(void *unused)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		request.ifr_flags ^= IFF_UP;
		OK(ob_sys_ioctl(fd, SIOCSIFFLAGS, (unsigned long)&request));
	}
	OK(ob_sys_close(fd));
	return unused;
}

static void *read_often(void *unused)
{
	char text[64];

	for (int i = 0; i < READS; i++) {
		int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/sys/class/net/lo/carrier", O_RDONLY,
					       0));

		/* An interface that is down has no carrier to tell. */
		if (ob_sys_read(fd, text, sizeof(text)) < 0)
			CHECK_EQUAL(errno, EINVAL);
		OK(ob_sys_close(fd));
	}
	return unused;
}

int main(void)
{
	pthread_t changer, readers[READERS];

	client_boot(2);
	CHECK(!pthread_create(&changer, NULL, change_always, NULL));
	for (int i = 0; i < READERS; i++)
		CHECK(!pthread_create(&readers[i], NULL, read_often, NULL));
	for (int i = 0; i < READERS; i++)
		CHECK(!pthread_join(readers[i], NULL));
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(changer, NULL));
	return 0;
}
