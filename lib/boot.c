// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot and halt: checks and completes the configuration, loads the kernel image, and starts
 * platform and kernel in this order. One kernel per process: once a kernel has booted, `booted`
 * stays set for good. A fork()ed child is another process: it has no kernel, and can boot one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

#include "image.h"
#include "kernel.h"
#include "log.h"
#include "posix.h"
#include "snapshot.h"

#define MAX_VCPUS 64
/* Linux's COMMAND_LINE_SIZE, but for the words that every boot gets (kernel/arch/core/setup.c). */
#define COMMAND_LINE_MOST 384
/* The members that struct ob_config had at first, and later. */
#define CONFIG_SIZE_BEFORE_PANIC offsetof(struct ob_config, panic)
#define CONFIG_SIZE_BEFORE_KERNEL offsetof(struct ob_config, kernel)
#define MEMORY_STEP (16ull << 20)
#define MEMORY_MINIMUM (32ull << 20)
#define MEMORY_DEFAULT_MINIMUM (64ull << 20)

static pthread_mutex_t boot_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool booted;
static char boot_error[512];
static struct ob_host *host;
static struct ob_image image = OB_NO_IMAGE;	/* its address is 0: none is loaded */
static bool image_is_own, image_is_used;
static bool image_is_changing;		/* atomic: a forked child looks at it */

/* Notes why booting fails, and passes the error on. */
static __attribute__((format(printf, 2, 3))) int fail(int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(boot_error, sizeof(boot_error), format, arguments);
	va_end(arguments);
	return error;
}

struct ob_host *ob_boot_host(void)
{
	return host;
}

const char *ob_boot_error(void)
{
	return boot_error;
}

static int make_host(void)
{
	int error = host ? 0 : ob_platform_host_new(ob_kernel_table(), &host);

	return error ? fail(error, "this process has too many kernels: the most is %d", OB_HOSTS_MOST) : 0;
}

static int choose_vcpus(const struct ob_config *config, struct ob_boot_parameters *parameters)
{
	uint32_t processors = ob_host_processor_count(host);

	if (config->vcpus > MAX_VCPUS)
		return fail(-EINVAL, "vcpus is %u: use 1 to %d, or 0 for as many as the host has",
			    config->vcpus, MAX_VCPUS);
	if (config->vcpus)
		parameters->vcpus = config->vcpus;
	else
		parameters->vcpus = processors < MAX_VCPUS ? processors : MAX_VCPUS;
	return 0;
}

static int choose_memory(const struct ob_config *config, struct ob_boot_parameters *parameters)
{
	uint64_t memory = config->memory, most = ob_posix_memory_most();
	uint64_t least = memory ? memory : MEMORY_DEFAULT_MINIMUM;

	if (memory && memory < MEMORY_MINIMUM)
		return fail(-EINVAL, "memory is %llu bytes: use at least %llu MB, or 0 for a quarter of the host's",
			    (unsigned long long)memory, MEMORY_MINIMUM >> 20);
	if (!memory)
		memory = ob_host_memory_size(host) / 4;
	if (memory < MEMORY_DEFAULT_MINIMUM && !config->memory)
		memory = MEMORY_DEFAULT_MINIMUM;
	if (most < least)
		return fail(-ENOMEM, "the kernel's memory is a file of %llu MB at least: files are limited to %llu KB (ulimit -f)",
			    (unsigned long long)least >> 20, (unsigned long long)most >> 10);
	if (memory > most)
		memory = most;
	parameters->memory = memory - memory % MEMORY_STEP;
	return 0;
}

static int choose_log(const struct ob_config *config, struct ob_boot_parameters *parameters)
{
	int level = config->log_level;

	if (level == OB_LOG_DEFAULT)
		level = ob_log_level_from_environment();
	else if (level < 0 || level > 7)
		return fail(-EINVAL, "log_level is %d: use 0 to 7, or OB_LOG_DEFAULT", level);
	if (level == OB_LOG_INVALID)
		return fail(-EINVAL, "OUTBOARD_LOG: use emerg, alert, crit, err, warning, notice, info, debug, or 0 to 7");
	level = ob_log_configure(level, config);
	/* The kernel's least is 0; ob_log_line drops the rest of what is not wanted. */
	parameters->log_level = level < 0 ? 0 : (uint32_t)level;
	return 0;
}

/* Completes what the program gives, which may be of an older library, or nothing. */
static int complete(const struct ob_config *given, struct ob_config *config)
{
	*config = (struct ob_config){ .size = sizeof(*config), .log_level = OB_LOG_DEFAULT };
	if (!given)
		return 0;
	if (given->size != sizeof(*config) && given->size != CONFIG_SIZE_BEFORE_KERNEL &&
	    given->size != CONFIG_SIZE_BEFORE_PANIC)
		return fail(-EINVAL, "size of struct ob_config is %zu, this library's is %zu: recompile the program",
			    given->size, sizeof(*config));
	memcpy(config, given, given->size);
	return 0;
}

static int choose(const struct ob_config *config, struct ob_boot_parameters *parameters)
{
	int error;

	if (config->command_line && strlen(config->command_line) > COMMAND_LINE_MOST)
		return fail(-EINVAL, "command_line has %zu characters: the kernel has room for %d",
			    strlen(config->command_line), COMMAND_LINE_MOST);
	parameters->command_line = config->command_line;
	parameters->components = config->components;
	error = choose_vcpus(config, parameters);
	if (!error)
		error = choose_memory(config, parameters);
	if (!error)
		error = choose_log(config, parameters);
	return error;
}

/* While nothing has happened yet: the program can boot without them. */
static int check_components(const char *names)
{
	struct ob_component unused;
	char name[64];
	size_t length;

	for (names += strspn(names, " "); *names; names += length, names += strspn(names, " ")) {
		length = strcspn(names, " ");
		if (length < sizeof(name)) {
			memcpy(name, names, length);
			name[length] = '\0';
		}
		if (length >= sizeof(name) || ob_host_component_find(host, name, 0, &unused))
			return fail(-ENOENT, "no component is called \"%.*s\"", (int)length, names);
	}
	return 0;
}

/* What the kernel takes of the address space besides its memory: windows and stacks. */
#define WINDOWS_BYTES (100ull << 30)

static int fail_to_start(const struct ob_boot_parameters *parameters, int error)
{
	char limits[128] = "";
	bool limited = ob_posix_limits_describe(parameters->memory + WINDOWS_BYTES, limits, sizeof(limits));

	return fail(error, "the kernel does not start with %u vCPUs and %llu MB: %s%s%s", parameters->vcpus,
		    (unsigned long long)parameters->memory >> 20, strerror(-error),
		    limited ? "; limits of this process: " : "", limits);
}

static void set_changing(bool changing)
{
	__atomic_store_n(&image_is_changing, changing, __ATOMIC_SEQ_CST);
}

static void unload_image(void)
{
	ob_image_unload(&image);
	image_is_own = false;
}

/* A fork()ed child has one thread, and nothing of its parent's kernel. */
static void forget_parent(void)
{
	boot_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	/* By a thread that is not here. What there is of it stays where it is, without use. */
	if (image_is_changing) {
		image = (struct ob_image)OB_NO_IMAGE;
		image_is_own = image_is_changing = false;
	}
	if (!image_is_used)
		return;
	booted = image_is_used = false;
	ob_kernel_attach(NULL);
	unload_image();
	ob_platform_thread_clear();
}

static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;
static int fork_hook_error;

static void fork_hook_install(void)
{
	fork_hook_error = pthread_atfork(NULL, NULL, forget_parent);
}

/* Not if a kernel was started from it before. ob_prepare may have loaded the library's own. */
static int load_image(const char *path)
{
	char reason[256];
	int error;

	if (image_is_used || (image.address && image_is_own && !path))
		return 0;
	pthread_once(&fork_hook_once, fork_hook_install);
	if (fork_hook_error)
		return fail(-fork_hook_error, "the host refuses a hook for fork: %s",
			    strerror(fork_hook_error));
	set_changing(true);
	if (image.address)
		unload_image();
	error = ob_image_load(path, host, &image, reason, sizeof(reason));
	image_is_own = !error && !path;
	set_changing(false);
	if (error)
		return fail(error, "the kernel image %.150s cannot be loaded: %s",
			    path ? path : "of the library", reason);
	return 0;
}

static int start_kernel(const struct ob_boot_parameters *parameters)
{
	image_is_used = true;
	ob_kernel_attach(image.upcalls);
	return ob_kernel_boot(parameters);
}

static int start(const struct ob_config *config, struct ob_boot_parameters *parameters)
{
	int error;

	ob_posix_set_panic(host, config->panic, config->panic_context);
	error = ob_posix_start(host, ob_log_line, NULL);
	if (error)
		return fail(error, "the host refuses signal or thread hooks: %s", strerror(-error));
	error = check_components(config->components ? config->components : "");
	if (error) {
		ob_posix_stop(host);
		return error;
	}
	parameters->snapshot = config->snapshots &&
			       ob_snapshot_prepare(host, config->snapshots, parameters, &image);
	error = start_kernel(parameters);
	ob_posix_snapshot_done(host);
	if (!error)
		return 0;
	if (!ob_halt())
		return fail(error, "a component of \"%s\" cannot be loaded: %s", parameters->components, strerror(-error));
	ob_posix_stop(host);
	return fail_to_start(parameters, error);
}

static int boot(const struct ob_config *given)
{
	struct ob_boot_parameters parameters = { 0 };
	struct ob_config config;
	int error;

	boot_error[0] = '\0';
	if (booted)
		return fail(-EALREADY, "this process has booted a kernel before: there can be only one");
	error = make_host();
	if (!error)
		error = complete(given, &config);
	if (!error)
		error = choose(&config, &parameters);
	if (!error)
		error = load_image(config.kernel);
	if (!error)
		error = start(&config, &parameters);
	booted = !error;
	return error;
}

void ob_prepare(void)
{
	pthread_mutex_lock(&boot_mutex);
	/* ob_boot tries again, and reports why it cannot be loaded. */
	if (!booted && !make_host())
		load_image(NULL);
	boot_error[0] = '\0';
	pthread_mutex_unlock(&boot_mutex);
	/* Later than the hook above: the platform's finds no kernel attached in a child. */
	if (host)
		ob_posix_prepare(host);
}

int ob_boot(const struct ob_config *config)
{
	int error;

	pthread_mutex_lock(&boot_mutex);
	error = boot(config);
	pthread_mutex_unlock(&boot_mutex);
	return error;
}

int ob_halt(void)
{
	int halted = 0, error = ob_kernel_halt(&halted);

	if (halted) {
		ob_posix_stop(host);
		ob_kernel_free();
	}
	return error;
}
