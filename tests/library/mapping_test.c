// SPDX-License-Identifier: GPL-2.0-only
/*
 * How often the host is asked to show a page of a client, and what happens if it cannot.
 *
 * The library's calls of mmap() come here first: a program's own function goes before the C
 * library's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

#define PAGE 4096
#define PAGES 256

/* Any access may fault, and so come to mmap() below. */
static volatile char *window;		/* pages of a client; NULL: none yet */
static volatile unsigned int shown;	/* calls that show some of them */
static volatile bool refuses;		/* to show any */

static bool is_client_page(const volatile char *address)
{
	return window && address >= window && address < window + PAGES * PAGE;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (is_client_page(address) && fd >= 0) {
		if (refuses) {
			errno = ENOMEM;
			return MAP_FAILED;
		}
		shown++;
	}
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

static void touch_each_page_once(void)
{
	shown = 0;
	for (unsigned int i = 0; i < PAGES / 2; i++)
		window[i * PAGE] = (char)i;
	CHECK_EQUAL(shown, PAGES / 2);
	for (unsigned int i = 0; i < PAGES / 2; i++)
		CHECK_EQUAL((unsigned char)window[i * PAGE], i);
	CHECK_EQUAL(shown, PAGES / 2);
}

/* By the kernel, as the buffer of a call. */
static void have_each_page_touched_once(int zero)
{
	shown = 0;
	for (unsigned int i = PAGES / 2; i < PAGES - 8; i++)
		CHECK_EQUAL(OK(ob_sys_read(zero, (char *)window + i * PAGE, 8)), 8);
	CHECK_EQUAL(shown, PAGES / 2 - 8);
}

/* Reading shows a page of zeroes, writing another one. */
static void read_then_write(void)
{
	volatile char *page = window + (PAGES - 8) * PAGE;

	shown = 0;
	CHECK_EQUAL(*page, 0);
	*page = 'x';
	CHECK_EQUAL(*page, 'x');
	CHECK_EQUAL(shown, 2);
}

static void touch_what_cannot_be_shown(int zero)
{
	char *page = (char *)window + (PAGES - 4) * PAGE;

	refuses = true;
	CHECK_EQUAL(ob_sys_read(zero, page, 8), -1);
	CHECK_EQUAL(errno, EFAULT);
	CHECK(!client_can_read(page));
	CHECK(!client_can_write(page + PAGE));
	refuses = false;
	CHECK_EQUAL(OK(ob_sys_read(zero, page, 8)), 8);
	CHECK(client_can_write(page + PAGE));
	/* Those that were shown before come back. */
	CHECK_EQUAL(window[PAGE], 1);
}

int main(void)
{
	int zero;

	client_catch_faults();
	client_boot(1);
	zero = (int)OK(ob_sys_openat(AT_FDCWD, "/dev/zero", O_RDONLY, 0));
	window = (volatile char *)OK(ob_sys_mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	touch_each_page_once();
	have_each_page_touched_once(zero);
	read_then_write();
	touch_what_cannot_be_shown(zero);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
