// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several kernels in one process, and boots after halts: instance_test WHAT
 *
 *   again N    N boots and halts leave nothing behind
 *   busy N [DIRECTORY]
 *              the same while four threads call; from a snapshot in the directory
 *   data       two kernels exchange data through a pipe of the host, in both directions
 *   many N     N instances at once, while the first works; one more is refused
 *   turns N    N boots in two instances by turns, whose threads' blocks change places
 *   fork       a child has none of its parent's kernels, and boots the same handles
 *   snapshot DIRECTORY
 *              boots after a halt start from the snapshot that the first one has left
 *   several DIRECTORY STATUS N
 *              each of N instances at once, booted by threads of their own, has this snapshot
 *              status
 *   spoilt DIRECTORY
 *              snapshots that are damaged in all ways are replaced, and leave nothing behind
 *   refused    boots with bad configurations, and on a host that has too little, leave nothing
 *              behind
 *   bad        handles that are NULL, freed, halted, or of a running kernel
 *   panic FILE one kernel panics, by the component FILE, and the other finishes its work
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

#define MOST 16
#define CALLERS 4
#define DATA_BYTES (8l << 20)
#define PIECE 65536

static const char *snapshot_directory;

static struct ob_config small(void)
{
	return (struct ob_config){
		.size = sizeof(struct ob_config), .vcpus = 2, .memory = 64 << 20,
		.log_level = OB_LOG_DEFAULT, .snapshots = snapshot_directory,
	};
}

static void boot(struct ob_instance *instance)
{
	struct ob_config config = small();
	int error = ob_boot_on(instance, &config);

	if (error)
		fprintf(stderr, "%s\n", ob_boot_error_on(instance));
	CHECK_EQUAL(error, 0);
}

static struct ob_instance *booted(void)
{
	struct ob_instance *instance;

	CHECK_EQUAL(ob_instance_new(&instance), 0);
	boot(instance);
	return instance;
}

static void end(struct ob_instance *instance)
{
	CHECK_EQUAL(ob_halt_on(instance), 0);
	CHECK_EQUAL(ob_syscall_on(instance, OB_SYS_getppid), -ENODEV);
	CHECK_EQUAL(ob_instance_free(instance), 0);
}

/* ---- again and again ---------------------------------------------------- */

static void work(struct ob_instance *instance, long number)
{
	char text[32], back[32] = "";
	int file = (int)OK(ob_sys_openat_on(instance, AT_FDCWD, "/tmp/file",
					    O_CREAT | O_EXCL | O_RDWR, 0600));
	int size = snprintf(text, sizeof(text), "kernel %ld", number);

	CHECK_EQUAL(OK(ob_sys_write_on(instance, file, text, (size_t)size)), size);
	CHECK_EQUAL(OK(ob_sys_pread64_on(instance, file, back, sizeof(back), 0)), size);
	CHECK(!strcmp(text, back));
}

static void again(long times)
{
	struct ob_instance *instance = ob_instance_default();
	struct client_belongings before = { 0 };

	for (long i = 0; i < times; i++) {
		boot(instance);
		CHECK_EQUAL(ob_boot(NULL), -EALREADY);
		work(instance, i);
		CHECK_EQUAL(ob_halt(), 0);
		/* The first times, the C library and others allocate. */
		if (i == times / 10)
			before = client_belongings();
	}
	client_check_nothing_is_left(before);
}

static volatile bool stop;
static long calls[CALLERS], refusals[CALLERS];

/* Each call is refused, or answered by a kernel that is there as a whole. */
static void *call_always(void *number)
{
	long mine = (long)number;

	while (!stop) {
		long got = ob_syscall(OB_SYS_getpid);

		CHECK(got > 0 || got == -ENODEV);
		++*(got > 0 ? &calls[mine] : &refusals[mine]);
		/*
		 * No thread of the program has that number; a vCPU takes an interrupt all the same.
		 */
		ob_interrupt(1);
	}
	return NULL;
}

static void again_while_others_call(long times)
{
	pthread_t threads[CALLERS];

	for (long i = 0; i < CALLERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, call_always, (void *)i));
	again(times);
	stop = true;
	for (int i = 0; i < CALLERS; i++) {
		CHECK(!pthread_join(threads[i], NULL));
		CHECK(calls[i] && refusals[i]);
	}
}

/* ---- data --------------------------------------------------------------- */

struct half {
	struct ob_instance *instance;
	int host;			/* the end of the host's pipe */
	pthread_t thread;
};

static void fill(struct ob_instance *instance, int file)
{
	static unsigned char piece[PIECE];
	unsigned int state = 1;

	for (long done = 0; done < DATA_BYTES; done += PIECE) {
		for (int i = 0; i < PIECE; i++)
			piece[i] = (unsigned char)((state = state * 1103515245 + 12345) >> 16);
		CHECK_EQUAL(OK(ob_sys_write_on(instance, file, piece, PIECE)), PIECE);
	}
}

static void *send(void *argument)
{
	struct half *half = argument;
	char piece[PIECE];
	int file = (int)OK(ob_sys_openat_on(half->instance, AT_FDCWD, "/tmp/data", O_RDONLY, 0));
	long got;

	while ((got = OK(ob_sys_read_on(half->instance, file, piece, PIECE))))
		for (long done = 0, step; done < got; done += step)
			CHECK((step = write(half->host, piece + done, (size_t)(got - done))) > 0);
	OK(ob_sys_close_on(half->instance, (unsigned int)file));
	close(half->host);
	return NULL;
}

static void *receive(void *argument)
{
	struct half *half = argument;
	char piece[PIECE];
	int file = (int)OK(ob_sys_openat_on(half->instance, AT_FDCWD, "/tmp/data",
					    O_WRONLY | O_CREAT | O_TRUNC, 0600));
	long got;

	while ((got = read(half->host, piece, PIECE)) > 0)
		CHECK_EQUAL(OK(ob_sys_write_on(half->instance, file, piece, (size_t)got)), got);
	CHECK_EQUAL(got, 0);
	OK(ob_sys_close_on(half->instance, (unsigned int)file));
	close(half->host);
	return NULL;
}

static void copy(struct ob_instance *from, struct ob_instance *to)
{
	struct half sender = { .instance = from }, receiver = { .instance = to };
	int ends[2];

	CHECK(!pipe(ends));
	sender.host = ends[1];
	receiver.host = ends[0];
	CHECK(!pthread_create(&sender.thread, NULL, send, &sender));
	CHECK(!pthread_create(&receiver.thread, NULL, receive, &receiver));
	CHECK(!pthread_join(sender.thread, NULL));
	CHECK(!pthread_join(receiver.thread, NULL));
}

static void compare(struct ob_instance *instance, int file, int original)
{
	static char one[PIECE], other[PIECE];

	for (long at = 0; at < DATA_BYTES; at += PIECE) {
		CHECK_EQUAL(OK(ob_sys_pread64_on(instance, file, one, PIECE, at)), PIECE);
		CHECK_EQUAL(OK(ob_sys_pread64_on(instance, original, other, PIECE, at)), PIECE);
		CHECK(!memcmp(one, other, PIECE));
	}
}

/* This one thread is a task of both kernels. */
static void exchange(void)
{
	struct ob_instance *one = booted(), *other = booted();
	int original = (int)OK(
		ob_sys_openat_on(one, AT_FDCWD, "/tmp/original", O_CREAT | O_RDWR, 0600));
	int file = (int)OK(ob_sys_openat_on(one, AT_FDCWD, "/tmp/data", O_CREAT | O_RDWR, 0600));

	fill(one, original);
	fill(one, file);
	copy(one, other);
	OK(ob_sys_ftruncate_on(one, (unsigned int)file, 0));
	copy(other, one);
	compare(one, file, original);
	/* They are two: what one has, the other has not. */
	CHECK_EQUAL(ob_sys_openat_on(other, AT_FDCWD, "/tmp/original", O_RDONLY, 0), -1);
	CHECK_EQUAL(errno, ENOENT);
	end(one);
	end(other);
}

/* ---- many --------------------------------------------------------------- */

static void *call_first(void *instance)
{
	long *made = &calls[0];

	while (!stop) {
		CHECK(ob_syscall_on(instance, OB_SYS_getpid) > 0);
		++*made;
	}
	return NULL;
}

/* The kernel asks the host for threads of its later vCPUs a moment after boot. */
static void wait_for_vcpus(struct ob_instance *instance)
{
	unsigned long mask[16];

	CHECK(ob_syscall_on(instance, OB_SYS_sched_getaffinity, 0, sizeof(mask), mask) > 0);
}

static void many(long number)
{
	struct ob_instance *all[MOST], *more;
	struct ob_config config = small();
	pthread_t caller;

	for (long i = 0; i < number; i++) {
		all[i] = booted();
		work(all[i], i);
		if (!i)
			CHECK(!pthread_create(&caller, NULL, call_first, all[0]));
	}
	if (number == MOST) {
		struct client_belongings before;

		for (long i = 0; i < number; i++)
			wait_for_vcpus(all[i]);
		before = client_belongings();
		CHECK_EQUAL(ob_instance_new(&more), -EAGAIN);
		CHECK(!more);
		CHECK_EQUAL(ob_boot(&config), -EAGAIN);
		CHECK(strstr(ob_boot_error(), "there are 16 kernels already"));
		client_check_nothing_is_left(before);
	}
	stop = true;
	CHECK(!pthread_join(caller, NULL));
	CHECK(calls[0]);
	for (long i = 0; i < number; i += 2)
		end(all[i]);
	boot(ob_instance_default());
	for (long i = 1; i < number; i += 2) {
		char text[32] = "", wanted[32];
		int fd;

		snprintf(wanted, sizeof(wanted), "kernel %ld", i);
		fd = (int)OK(ob_sys_openat_on(all[i], AT_FDCWD, "/tmp/file", O_RDONLY, 0));
		CHECK(OK(ob_sys_pread64_on(all[i], fd, text, sizeof(text), 0)) > 0);
		CHECK(!strcmp(text, wanted));
		end(all[i]);
	}
	CHECK_EQUAL(ob_halt(), 0);
}

/* ---- turns -------------------------------------------------------------- */

/* This thread, and one that lives as long, know kernels whose blocks others have by then. */
static void turns(long times)
{
	struct client_belongings before = { 0 };

	for (long i = 0; i < times; i++) {
		struct ob_instance *one = booted(), *other = booted();

		work(one, i);
		work(other, -i);
		end(one);
		one = booted();
		work(one, i + 1);
		end(other);
		end(one);
		if (i == times / 5)
			before = client_belongings();
	}
	client_check_nothing_is_left(before);
}

/* ---- fork --------------------------------------------------------------- */

/* `before`: what the parent had before its first kernel. */
static int child(struct ob_instance *one, struct ob_instance *other,
		 struct client_belongings before)
{
	struct ob_instance *new;

	client_check_nothing_is_left(before);
	CHECK_EQUAL(ob_syscall_on(one, OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_syscall_on(other, OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_halt_on(other), -ENODEV);
	new = booted();
	work(new, 1);
	boot(other);
	work(other, 2);
	end(new);
	end(other);
	CHECK_EQUAL(ob_instance_free(one), 0);
	/* The code of its kernels stays. */
	client_check_files_and_threads(before);
	return 0;
}

static void forks(void)
{
	struct client_belongings before = client_belongings();
	struct ob_instance *one = booted(), *other = booted();
	pthread_t caller;
	int status;

	CHECK(!pthread_create(&caller, NULL, call_first, one));
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(child(one, other, before));
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(status, 0);
	}
	stop = true;
	CHECK(!pthread_join(caller, NULL));
	work(one, 3);
	work(other, 4);
	end(one);
	end(other);
}

/* ---- snapshot ----------------------------------------------------------- */

static void snapshots(const char *directory)
{
	struct ob_config config = small();

	config.snapshots = directory;
	for (int i = 0; i < 10; i++) {
		CHECK_EQUAL(ob_boot(&config), 0);
		if (!strstr(ob_snapshot_status(), i ? "started from" : "saved as"))
			fprintf(stderr, "boot %d: %s\n", i, ob_snapshot_status());
		CHECK(strstr(ob_snapshot_status(), i ? "started from" : "saved as"));
		work(ob_instance_default(), i);
		CHECK_EQUAL(ob_halt(), 0);
	}
	/* One that asks for none gets none. */
	boot(ob_instance_default());
	CHECK(strstr(ob_snapshot_status(), "not wanted"));
	CHECK_EQUAL(ob_halt(), 0);
}

struct one_of_several {
	pthread_t thread;
	struct ob_instance *instance;
	const char *directory;
	const char *status;
};

static void *boot_with_snapshot(void *argument)
{
	const struct one_of_several *one = argument;
	struct ob_config config = small();
	const char *status;

	config.snapshots = one->directory;
	CHECK_EQUAL(ob_boot_on(one->instance, &config), 0);
	status = ob_snapshot_status_on(one->instance);
	if (!strstr(status, one->status))
		fprintf(stderr, "%s\n", status);
	CHECK(strstr(status, one->status));
	return NULL;
}

static void several(const char *directory, const char *status, long number)
{
	struct one_of_several all[MOST];

	for (long i = 0; i < number; i++) {
		all[i] = (struct one_of_several){ .directory = directory, .status = status };
		CHECK_EQUAL(ob_instance_new(&all[i].instance), 0);
		CHECK(!pthread_create(&all[i].thread, NULL, boot_with_snapshot, &all[i]));
	}
	for (long i = 0; i < number; i++)
		CHECK(!pthread_join(all[i].thread, NULL));
	for (long i = 0; i < number; i++)
		work(all[i].instance, i);
	for (long i = 0; i < number; i++)
		end(all[i].instance);
}

/* ---- spoilt ------------------------------------------------------------- */

static void flip(int file, off_t offset)
{
	char byte;

	CHECK_EQUAL(pread(file, &byte, 1, offset), 1);
	byte ^= 1;
	CHECK_EQUAL(pwrite(file, &byte, 1, offset), 1);
}

#define WAYS_TO_SPOIL 6

static void spoil(const char *path, int way)
{
	int file = open(path, O_RDWR | O_CLOEXEC);
	off_t size;

	CHECK(file >= 0);
	size = lseek(file, 0, SEEK_END);
	CHECK(size > 4096);
	if (way == 0)
		flip(file, 3);			/* its magic */
	else if (way == 1)
		flip(file, 230);		/* its key */
	else if (way == 2)
		flip(file, size / 2);
	else if (way == 3)
		CHECK(!ftruncate(file, 0));
	else if (way == 4)
		CHECK(!ftruncate(file, size / 2));
	else
		CHECK(!ftruncate(file, size + 4096));
	close(file);
}

static void boot_from(const char *directory, const char *status)
{
	struct ob_config config = small();

	config.snapshots = directory;
	CHECK_EQUAL(ob_boot(&config), 0);
	if (!strstr(ob_snapshot_status(), status))
		fprintf(stderr, "%s\n", ob_snapshot_status());
	CHECK(strstr(ob_snapshot_status(), status));
	work(ob_instance_default(), 1);
	CHECK_EQUAL(ob_halt(), 0);
}

static void spoilt(const char *directory)
{
	struct client_belongings before = { 0 };
	char path[512];

	boot_from(directory, "saved as");
	for (int i = 0; i < 3 * WAYS_TO_SPOIL; i++) {
		client_find_snapshot(directory, path, sizeof(path));
		spoil(path, i % WAYS_TO_SPOIL);
		boot_from(directory, "not used: ");
		boot_from(directory, "started from");
		if (i == WAYS_TO_SPOIL)
			before = client_belongings();
	}
	client_check_nothing_is_left(before);
}

/* ---- refused ------------------------------------------------------------ */

static void refuse(struct ob_instance *instance, struct ob_config config, int error,
		   const char *reason)
{
	CHECK_EQUAL(ob_boot_on(instance, &config), error);
	if (!strstr(ob_boot_error_on(instance), reason))
		fprintf(stderr, "%s\n", ob_boot_error_on(instance));
	CHECK(strstr(ob_boot_error_on(instance), reason));
	CHECK_EQUAL(ob_syscall_on(instance, OB_SYS_getpid), -ENODEV);
}

#define WITH(member, value) ({ struct ob_config with_ = small(); with_.member = (value); with_; })

static void refuse_configurations(struct ob_instance *instance)
{
	static char words[800];

	memset(words, 'x', sizeof(words) - 1);
	refuse(instance, WITH(size, 3), -EINVAL, "recompile the program");
	refuse(instance, WITH(vcpus, 65), -EINVAL, "vcpus is 65: use 1 to 64");
	refuse(instance, WITH(memory, 1 << 20), -EINVAL, "memory is 1048576 bytes: use at least");
	refuse(instance, WITH(log_level, 8), -EINVAL, "log_level is 8: use 0 to 7");
	refuse(instance, WITH(command_line, words), -EINVAL, "command_line has 799 characters");
	refuse(instance, WITH(components, "nonsense"), -ENOENT,
	       "no component is called \"nonsense\"");
	refuse(instance, WITH(kernel, "/nowhere"), -ENOENT,
	       "the kernel image /nowhere cannot be loaded");
}

static struct rlimit limit(int resource, rlim_t most)
{
	struct rlimit before, now;

	CHECK(!getrlimit((__rlimit_resource_t)resource, &before));
	now = before;
	now.rlim_cur = most;
	CHECK(!setrlimit((__rlimit_resource_t)resource, &now));
	return before;
}

/* The boot fails, at one step or another. Returns false if it did not. */
static bool refuse_with(struct ob_instance *instance, int resource, rlim_t most)
{
	struct rlimit before = limit(resource, most);
	struct ob_config config = small();
	int error = ob_boot_on(instance, &config);

	CHECK(!setrlimit((__rlimit_resource_t)resource, &before));
	if (!error) {
		CHECK_EQUAL(ob_halt_on(instance), 0);
		return false;
	}
	CHECK(error == -ENOMEM || error == -EMFILE || error == -EAGAIN);
	CHECK(*ob_boot_error_on(instance));
	CHECK_EQUAL(ob_syscall_on(instance, OB_SYS_getpid), -ENODEV);
	return true;
}

static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages;

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return (rlim_t)pages * 4096;
}

/* From nothing to all that it needs, in steps. */
static void refuse_for_want(struct ob_instance *instance)
{
	rlim_t room = 1 << 16, descriptors = 0;

	while (refuse_with(instance, RLIMIT_AS, address_space() + room))
		room *= 2;
	CHECK(room > 1 << 30);
	while (refuse_with(instance, RLIMIT_NOFILE, descriptors))
		descriptors++;
	CHECK(descriptors);
}

static void refused(void)
{
	struct client_belongings before = { 0 };
	struct ob_instance *instance;

	CHECK_EQUAL(ob_instance_new(&instance), 0);
	for (int i = 0; i < 5; i++) {
		refuse_configurations(instance);
		refuse_for_want(instance);
		/* The first times, the C library and others allocate. */
		if (i == 1)
			before = client_belongings();
	}
	client_check_nothing_is_left(before);
	boot(instance);
	work(instance, 1);
	end(instance);
}

/* ---- bad ---------------------------------------------------------------- */

static int nothing(void *context, const struct ob_component_info *info)
{
	(void)context;
	(void)info;
	return 0;
}

static void check_null(void)
{
	CHECK_EQUAL(ob_instance_new(NULL), -EINVAL);
	CHECK_EQUAL(ob_instance_free(NULL), -EINVAL);
	CHECK_EQUAL(ob_boot_on(NULL, NULL), -EINVAL);
	CHECK(*ob_boot_error_on(NULL));
	CHECK(*ob_snapshot_status_on(NULL));
	CHECK_EQUAL(ob_halt_on(NULL), -EINVAL);
	CHECK_EQUAL(ob_syscall_on(NULL, OB_SYS_getpid), -EINVAL);
	CHECK_EQUAL(ob_sys_getpid_on(NULL), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(ob_interrupt_on(NULL, 0), -EINVAL);
	CHECK_EQUAL(ob_disk_add_on(NULL, NULL, NULL), -EINVAL);
	CHECK_EQUAL(ob_disk_remove_on(NULL, 0), -EINVAL);
	CHECK_EQUAL(ob_component_load_on(NULL, "xfs", NULL), -EINVAL);
	CHECK_EQUAL(ob_component_load_file_on(NULL, "xfs.ko", NULL), -EINVAL);
	CHECK_EQUAL(ob_component_unload_on(NULL, "xfs"), -EINVAL);
	CHECK_EQUAL(ob_component_list_on(NULL, nothing, NULL), -EINVAL);
	ob_prepare_on(NULL);
}

static int read_nothing(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	(void)context;
	(void)offset;
	(void)pieces;
	CHECK(!count && "a disk that was not added is read");
	return 0;
}

static void close_nothing(void *context)
{
	CHECK(!context && "a disk that was not added is closed");
}

static void check_no_kernel(struct ob_instance *instance)
{
	static const struct ob_disk_operations operations = {
		.size = sizeof(operations), .read = read_nothing, .closed = close_nothing,
	};
	struct ob_disk_config file = {
		.size = sizeof(file), .path = "/proc/self/exe", .flags = OB_DISK_READ_ONLY,
	};
	struct ob_disk_config served = {
		.size = sizeof(served), .operations = &operations, .context = &served,
		.capacity = 1 << 20, .flags = OB_DISK_READ_ONLY,
	};
	struct client_belongings before = client_belongings();

	CHECK_EQUAL(ob_syscall_on(instance, OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_halt_on(instance), -ENODEV);
	CHECK_EQUAL(ob_interrupt_on(instance, 0), -ENODEV);
	/* More often than there can be disks. */
	for (int i = 0; i < 300; i++) {
		CHECK_EQUAL(ob_disk_add_on(instance, &file, NULL), -ENODEV);
		CHECK_EQUAL(ob_disk_add_on(instance, &served, NULL), -ENODEV);
	}
	CHECK_EQUAL(ob_disk_remove_on(instance, 0), -ENODEV);
	CHECK_EQUAL(ob_component_load_on(instance, "xfs", NULL), -ENODEV);
	CHECK(*ob_component_error());
	client_check_nothing_is_left(before);
}

static void bad(void)
{
	struct ob_instance *instance;
	struct ob_config config = small();

	check_null();
	CHECK_EQUAL(ob_instance_new(&instance), 0);
	check_no_kernel(instance);
	config.vcpus = 1000;
	CHECK_EQUAL(ob_boot_on(instance, &config), -EINVAL);
	CHECK(strstr(ob_boot_error_on(instance), "vcpus"));
	CHECK(!*ob_boot_error());
	boot(instance);
	CHECK_EQUAL(ob_boot_on(instance, NULL), -EALREADY);
	CHECK_EQUAL(ob_instance_free(instance), -EBUSY);
	CHECK_EQUAL(ob_instance_free(ob_instance_default()), -EINVAL);
	work(instance, 0);
	CHECK_EQUAL(ob_halt_on(instance), 0);
	check_no_kernel(instance);
	CHECK_EQUAL(ob_instance_free(instance), 0);
	check_no_kernel(instance);
	CHECK_EQUAL(ob_boot_on(instance, NULL), -ENODEV);
	CHECK_EQUAL(ob_instance_free(instance), -ENODEV);
}

/* ---- panic -------------------------------------------------------------- */

static char last_words[4096];
static bool has_ended;

static void on_panic(void *context, const char *text, size_t length)
{
	(void)context;
	memcpy(last_words, text, length < sizeof(last_words) ? length : sizeof(last_words) - 1);
	__atomic_store_n(&has_ended, true, __ATOMIC_SEQ_CST);
}

static struct ob_instance *doomed;

static void *die(void *component)
{
	ob_component_load_file_on(doomed, component, "how=panic");
	CHECK(!"comes back");
	return NULL;
}

static void panic(char *component)
{
	struct ob_config config = small();
	struct ob_instance *other;
	pthread_t thread;

	config.flags = OB_CONTAIN_PANIC;
	config.panic = on_panic;
	CHECK_EQUAL(ob_instance_new(&doomed), 0);
	CHECK_EQUAL(ob_boot_on(doomed, &config), 0);
	other = booted();
	CHECK(ob_syscall_on(doomed, OB_SYS_getpid) > 0);
	CHECK(!pthread_create(&thread, NULL, die, component));
	/* Its own calls of the other kernel would stay there for ever. */
	while (!__atomic_load_n(&has_ended, __ATOMIC_SEQ_CST))
		CHECK(ob_syscall_on(other, OB_SYS_getpid) > 0);
	CHECK(strstr(last_words, "the component asked for it"));
	CHECK_EQUAL(ob_syscall_on(doomed, OB_SYS_getpid), -ENODEV);
	work(other, 1);
	CHECK_EQUAL(ob_halt_on(doomed), -ENODEV);
	CHECK_EQUAL(ob_net_remove_on(doomed, 0), -ENODEV);
	CHECK(strstr(ob_net_error(), "panicked"));
	CHECK_EQUAL(ob_boot_on(doomed, NULL), -EBUSY);
	CHECK(strstr(ob_boot_error_on(doomed), "panicked"));
	CHECK_EQUAL(ob_instance_free(doomed), -EBUSY);
	end(other);
	end(booted());
}

int main(int number, char **arguments)
{
	const char *what = number > 1 ? arguments[1] : "";
	long times = number > 2 ? atol(arguments[2]) : 0;

	if (!strcmp(what, "again"))
		again(times);
	else if (!strcmp(what, "busy")) {
		snapshot_directory = number > 3 ? arguments[3] : NULL;
		again_while_others_call(times);
	} else if (!strcmp(what, "data"))
		exchange();
	else if (!strcmp(what, "many"))
		many(times);
	else if (!strcmp(what, "turns"))
		turns(times);
	else if (!strcmp(what, "fork"))
		forks();
	else if (!strcmp(what, "snapshot"))
		snapshots(arguments[2]);
	else if (!strcmp(what, "several") && number > 4)
		several(arguments[2], arguments[3], atol(arguments[4]));
	else if (!strcmp(what, "spoilt"))
		spoilt(arguments[2]);
	else if (!strcmp(what, "refused"))
		refused();
	else if (!strcmp(what, "bad"))
		bad();
	else if (!strcmp(what, "panic"))
		panic(arguments[2]);
	else
		return 2;
	return 0;
}
