// SPDX-License-Identifier: GPL-2.0-only
/* See device_bed.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_bed.h"

#define SYSLOG_READ_ALL 3

struct ob_host *host;
char text[16384];

void load(const char *image, const struct mock_device *device, struct mock_options options)
{
	options.device = device;
	options.vcpus = options.vcpus ? options.vcpus : 1;
	options.log_level = 4;
	host = mock_new(image, &options);
	CHECK(host);
}

void boot(void)
{
	CHECK_EQUAL(mock_boot(host), 0);
	CALL(SYS_mkdir, "/sys", 0755, 0, 0, 0);
	CALL(SYS_mount, "none", "/sys", "sysfs", 0, 0);
}

void start_with(const char *image, const struct mock_device *device, struct mock_options options)
{
	load(image, device, options);
	boot();
}

void stop_host(void)
{
	CHECK_EQUAL(mock_halt(host), 0);
	mock_free(host);
}

void write_file(const char *path, const char *value)
{
	long fd = CALL(SYS_open, path, O_WRONLY, 0, 0, 0), length = (long)strlen(value);

	CHECK(fd >= 0);
	CHECK_EQUAL(CALL(SYS_write, fd, value, length, 0, 0), length);
	CALL(SYS_close, fd, 0, 0, 0, 0);
}

void read_file(const char *path)
{
	long fd = CALL(SYS_open, path, O_RDONLY, 0, 0, 0), length;

	CHECK(fd >= 0);
	length = CALL(SYS_read, fd, text, sizeof(text) - 1, 0, 0);
	CHECK(length > 0);
	text[length] = '\0';
	CALL(SYS_close, fd, 0, 0, 0, 0);
}

void check_log(const char *message)
{
	long length = CALL(SYS_syslog, SYSLOG_READ_ALL, text, sizeof(text) - 1, 0, 0);

	CHECK(length > 0);
	text[length] = '\0';
	CHECK(strstr(text, message));
}

long handled(const char *name, int vcpu, long *irq)
{
	long count = 0;
	char *line, *end;

	read_file("/proc/interrupts");
	line = strstr(text, name);
	CHECK(line);
	while (line > text && line[-1] != '\n')
		line--;
	*irq = strtol(line, &line, 10);
	line++;
	for (int column = 0;; column++, line = end) {
		long part = strtol(line, &end, 10);

		if (end == line)
			return count;
		if (vcpu == ALL_VCPUS || vcpu == column)
			count += part;
	}
}

void load_driver(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY);
	struct stat status;
	void *bytes;

	CHECK(fd >= 0 && !fstat(fd, &status));
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(bytes != MAP_FAILED);
	CHECK_EQUAL(mock_upcalls(host)->component_insert(bytes, (uint64_t)status.st_size,
							 parameters), 0);
	munmap(bytes, (size_t)status.st_size);
	close(fd);
}
