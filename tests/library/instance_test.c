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
 *              each of N instances at once, booted by threads of their own, has this snapshot status
 *   bad        handles that are NULL, freed, halted, or of a running kernel
 *   panic FILE one kernel panics, by the component FILE, and the other finishes its work
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
		/* No thread of the program has that number; a vCPU takes an interrupt all the same. */
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
	int original = (int)OK(ob_sys_openat_on(one, AT_FDCWD, "/tmp/original", O_CREAT | O_RDWR, 0600));
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
		CHECK_EQUAL(ob_instance_new(&more), -EAGAIN);
		CHECK(!more);
		CHECK_EQUAL(ob_boot(&config), -EAGAIN);
		CHECK(strstr(ob_boot_error(), "16"));
	}
	stop = true;
	CHECK(!pthread_join(caller, NULL));
	CHECK(calls[0]);
	for (long i = 0; i < number; i += 2)
		end(all[i]);
	boot(ob_instance_default());
	for (long i = 1; i < number; i += 2) {
		char text[32] = "", wanted[32];

		snprintf(wanted, sizeof(wanted), "kernel %ld", i);
		CHECK(OK(ob_sys_pread64_on(all[i], (int)OK(ob_sys_openat_on(all[i], AT_FDCWD, "/tmp/file", O_RDONLY, 0)),
					   text, sizeof(text), 0)) > 0);
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

static int child(struct ob_instance *one, struct ob_instance *other)
{
	struct ob_instance *new;

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
	return 0;
}

static void forks(void)
{
	struct ob_instance *one = booted(), *other = booted();
	pthread_t caller;
	int status;

	CHECK(!pthread_create(&caller, NULL, call_first, one));
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(child(one, other));
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

/* ---- bad ---------------------------------------------------------------- */

static void nothing(void *context, const struct ob_component_info *info)
{
	(void)context;
	(void)info;
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

static void check_no_kernel(struct ob_instance *instance)
{
	struct ob_disk_config disk = { .size = sizeof(disk), .path = "/" };

	CHECK_EQUAL(ob_syscall_on(instance, OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_halt_on(instance), -ENODEV);
	CHECK_EQUAL(ob_interrupt_on(instance, 0), -ENODEV);
	CHECK_EQUAL(ob_disk_add_on(instance, &disk, NULL), -ENODEV);
	CHECK_EQUAL(ob_disk_remove_on(instance, 0), -ENODEV);
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

	config.contain_panic = 1;
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
	else if (!strcmp(what, "bad"))
		bad();
	else if (!strcmp(what, "panic"))
		panic(arguments[2]);
	else
		return 2;
	return 0;
}
