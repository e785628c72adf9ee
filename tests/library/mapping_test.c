// SPDX-License-Identifier: GPL-2.0-only
/*
 * How often the host is asked to show pages of a client, and to hide them, and what happens if it
 * cannot.
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
#define AHEAD 8			/* that one fault gives who touches one page after the other */

/* Any access may fault, and so come to mmap() below. */
static volatile char *volatile window;	/* pages of a client; NULL: none yet */
static volatile unsigned int shown;	/* calls that show some of them */
static volatile unsigned int hidden;	/* calls that hide some */
static volatile bool refuses;		/* to show any */

static bool is_client_page(const volatile char *address)
{
	return window && address >= window && address < window + PAGES * PAGE;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (is_client_page(address) && fd < 0)
		hidden++;
	if (is_client_page(address) && fd >= 0) {
		if (refuses) {
			errno = ENOMEM;
			return MAP_FAILED;
		}
		shown++;
	}
	return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

static void touch(unsigned int page)
{
	window[page * PAGE] = (char)page;
}

/* A fault gives more pages only behind the page of the last fault, up to one that is there. */
static void touch_in_any_order(void)
{
	shown = 0;
	touch(60);
	touch(50);
	CHECK_EQUAL(shown, 2);
	touch(51);
	CHECK_EQUAL(shown, 2 + AHEAD);
	touch(59);
	CHECK_EQUAL(shown, 3 + AHEAD);
	touch(40);
	touch(38);
	CHECK_EQUAL(shown, 5 + AHEAD);
}

static void touch_one_after_the_other(void)
{
	shown = 0;
	touch(0);
	CHECK_EQUAL(shown, 1);
	for (unsigned int i = 1; i <= AHEAD; i++) {
		touch(i);
		CHECK_EQUAL(shown, 1 + AHEAD);
	}
	for (unsigned int i = AHEAD + 1; i < PAGES / 2; i++)
		touch(i);
	/* Each page is shown once, whatever was touched before. */
	CHECK(shown >= PAGES / 2 - 5 - AHEAD && shown <= PAGES / 2 - 5);
	shown = 0;
	for (unsigned int i = 0; i < PAGES / 2; i++)
		CHECK_EQUAL((unsigned char)window[i * PAGE], i);
	CHECK_EQUAL(shown, 0);
}

/* By the kernel, as the buffer of a call. */
static void have_each_page_touched(int zero)
{
	shown = 0;
	for (unsigned int i = PAGES / 2 + AHEAD; i < PAGES - 8; i++)
		CHECK_EQUAL(OK(ob_sys_read(zero, (char *)window + i * PAGE, 8)), 8);
	CHECK_EQUAL(shown, 1 + (PAGES / 2 - 2 * AHEAD) / AHEAD * AHEAD);
}

/* The host is asked once for all pages, or once for each of a few pieces. */
static void hide_many_at_once(void)
{
	hidden = 0;
	OK(ob_sys_mprotect((char *)window, PAGES / 4 * PAGE, PROT_READ));
	CHECK(hidden >= 1 && hidden <= 2);
	CHECK_EQUAL(window[PAGE], 1);
	hidden = 0;
	OK(ob_sys_madvise((char *)window, PAGES / 4 * PAGE, MADV_DONTNEED));
	CHECK(hidden >= 1 && hidden <= 2);
	hidden = 0;
	OK(ob_sys_munmap((char *)window, PAGES * PAGE));
	CHECK(hidden >= 1 && hidden <= 2);
}

/* Reading shows a page of zeroes, writing another one. */
static void read_then_write(void)
{
	volatile char *page = window + (PAGES - 6) * PAGE;

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
	touch_in_any_order();
	touch_one_after_the_other();
	have_each_page_touched(zero);
	read_then_write();
	touch_what_cannot_be_shown(zero);
	hide_many_at_once();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
