// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: mmap of kernel files in the client window, private and shared and coherent with read and
 * write; memfd; tmpfs with xattrs; big vmalloc; growing beyond what the kernel starts with.
 * Argument: an ext4 image, which has a file /mapped of two pages afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client.h"

#define MB (1ul << 20)

static char *map(size_t length, int protection, int flags, long fd, off_t offset)
{
	char *address = ob_sys_mmap(NULL, length, protection, flags, (int)fd, offset);

	if (address == MAP_FAILED)
		perror("ob_sys_mmap");
	CHECK(address != MAP_FAILED);
	return address;
}

static void anonymous(void)
{
	char *memory = map(8 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < 8 * MB; i += 4096) {
		CHECK_EQUAL(memory[i], 0);
		memory[i] = (char)(i >> 12);
	}
	for (size_t i = 0; i < 8 * MB; i += 4096)
		CHECK_EQUAL(memory[i], (char)(i >> 12));
	OK(ob_sys_madvise(memory, 4096, MADV_DONTNEED));
	CHECK_EQUAL(memory[0], 0);
	OK(ob_sys_munmap(memory, 8 * MB));
}

/* Data that one way writes, the other way reads. */
static void coherent(long file)
{
	int fd = (int)file;
	char *shared, *private, text[16] = "";

	OK(ob_sys_ftruncate(fd, 8192));
	shared = map(8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	private = map(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	OK(ob_sys_pwrite64(fd, "by pwrite", 10, 4090));
	CHECK(!memcmp(shared + 4090, "by pwrite", 10));
	CHECK(!memcmp(private + 4090, "by pwrite", 10));
	strcpy(shared + 100, "by mapping");
	CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 11, 100)), 11);
	CHECK(!strcmp(text, "by mapping"));
	CHECK(!strcmp(private + 100, "by mapping"));
	strcpy(private + 100, "for me only");
	CHECK(!strcmp(shared + 100, "by mapping"));
	CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 11, 100)), 11);
	CHECK(!strcmp(text, "by mapping"));
	OK(ob_sys_msync(shared, 8192, MS_SYNC));
	OK(ob_sys_munmap(private, 8192));
	OK(ob_sys_munmap(shared, 8192));
	OK(ob_sys_close(fd));
}

static void bad_mappings(long file)
{
	CHECK(ob_sys_mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	CHECK_EQUAL(errno, EINVAL);
	CHECK(ob_sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED, 12345, 0) == MAP_FAILED);
	CHECK_EQUAL(errno, EBADF);
	CHECK(ob_sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)file, 100) == MAP_FAILED);
	CHECK_EQUAL(errno, EINVAL);
	/* The host's addresses are not the kernel's to map or unmap. */
	CHECK(ob_sys_mmap(client_border() - 4096, 4096, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
	ob_sys_munmap(client_border() - 4096, 4096);
	client_border()[-1] = 1;
}

/* A buffer in the window is as good as any, also for direct I/O; one outside is bounced. */
/* At a position, and at the file's own. */
static void direct_io_with_flags(int fd, char *host)
{
	struct iovec half[2] = { { host, MB / 2 }, { host + MB / 2, MB / 2 } };

	memset(host, 'v', MB);
	OK(ob_sys_lseek(fd, 0, SEEK_SET));
	CHECK_EQUAL(OK(ob_sys_pwritev2(fd, half, 2, (unsigned long)-1, 0, RWF_DSYNC)), MB);
	CHECK_EQUAL(OK(ob_sys_lseek(fd, 0, SEEK_CUR)), MB);
	memset(host, 0, MB);
	CHECK_EQUAL(OK(ob_sys_preadv2(fd, half, 2, 0, 0, 0)), MB);
	CHECK(host[0] == 'v' && host[MB - 1] == 'v');
}

/* A read that cannot store its data reads nothing: the file's position shows this. */
static void direct_io_with_bad_buffer(int fd)
{
	char *border = client_border();

	OK(ob_sys_lseek(fd, 0, SEEK_SET));
	CHECK_EQUAL(ob_sys_read(fd, NULL, 4096), -1);
	CHECK_EQUAL(errno, EFAULT);
	CHECK_EQUAL(OK(ob_sys_lseek(fd, 0, SEEK_CUR)), 0);
	CHECK_EQUAL(OK(ob_sys_read(fd, border - 4096, 8192)), 4096);
	CHECK(border[-4096] == 'v' && border[-1] == 'v');
	CHECK_EQUAL(OK(ob_sys_lseek(fd, 0, SEEK_CUR)), 4096);
}

static void direct_io(void)
{
	int fd = OK(ob_sys_openat(AT_FDCWD, "/disk/direct",
							  O_RDWR | O_CREAT | O_DIRECT, 0644));
	char *window = map(MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *host = aligned_alloc(4096, MB);

	CHECK(host);
	memset(window, 'w', MB);
	CHECK_EQUAL(OK(ob_sys_pwrite64(fd, window, MB, 0)), MB);
	CHECK_EQUAL(OK(ob_sys_pread64(fd, host, MB, 0)), MB);
	CHECK(!memcmp(host, window, MB));
	memset(host, 'h', MB);
	CHECK_EQUAL(OK(ob_sys_pwrite64(fd, host, MB, MB)), MB);
	CHECK_EQUAL(OK(ob_sys_pread64(fd, window, MB, MB)), MB);
	CHECK(!memcmp(host, window, MB));
	direct_io_with_flags(fd, host);
	direct_io_with_bad_buffer(fd);
	free(host);
	OK(ob_sys_munmap(window, MB));
	OK(ob_sys_close(fd));
	OK(ob_sys_unlink("/disk/direct"));
}

static void tmpfs_xattr(void)
{
	char value[16] = "";

	OK(ob_sys_close(OK(ob_sys_openat(AT_FDCWD, "/tmpfs/x", O_CREAT | O_RDWR, 0644))));
	OK(ob_sys_setxattr("/tmpfs/x", "user.colour", "green", 5, 0));
	CHECK_EQUAL(OK(ob_sys_getxattr("/tmpfs/x", "user.colour", value, sizeof(value))), 5);
	CHECK(!memcmp(value, "green", 5));
}

/* The kernel copies a module to vmalloc memory before it looks at it. */
static void big_vmalloc(void)
{
	char *junk;

	if (!ob_kernel_config("CONFIG_MODULES"))
		return;
	junk = calloc(1, 64 * MB);
	CHECK(junk);
	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(ob_sys_init_module(junk, 64 * MB, ""), -1);
		CHECK_EQUAL(errno, ENOEXEC);
	}
	free(junk);
}

/* 200 MB in a tmpfs: the kernel starts with 32 MB at most. */
static void grows(void)
{
	int fd = OK(ob_sys_openat(AT_FDCWD, "/tmpfs/big", O_CREAT | O_RDWR, 0644));
	static char block[MB], got[MB];

	for (int i = 0; i < 200; i++) {
		memset(block, i, MB);
		CHECK_EQUAL(OK(ob_sys_write(fd, block, MB)), MB);
	}
	for (int i = 0; i < 200; i++) {
		memset(block, i, MB);
		CHECK_EQUAL(OK(ob_sys_pread64(fd, got, MB, i * (int64_t)MB)), MB);
		CHECK(!memcmp(got, block, MB));
	}
	OK(ob_sys_close(fd));
	OK(ob_sys_unlink("/tmpfs/big"));
}

int main(int count, char **arguments)
{
	long fd;

	CHECK_EQUAL(count, 2);
	client_boot(0);
	client_tmpfs("/tmpfs");
	client_mount(arguments[1], "ext4", "/disk");
	anonymous();
	coherent(OK(ob_sys_memfd_create("m", 0)));
	coherent(OK(ob_sys_openat(AT_FDCWD, "/tmpfs/f", O_RDWR | O_CREAT, 0644)));
	fd = OK(ob_sys_openat(AT_FDCWD, "/disk/mapped", O_RDWR | O_CREAT, 0644));
	bad_mappings(fd);
	coherent(fd);
	direct_io();
	tmpfs_xattr();
	big_vmalloc();
	grows();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
