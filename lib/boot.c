// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot and halt: checks and completes the configuration, loads the kernel image, starts platform
 * and kernel. After a halt the image's data are reset, and the instance can boot again, from the
 * same image or another one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "instance.h"
#include "snapshot.h"

#define MAX_VCPUS 64
/* Linux's COMMAND_LINE_SIZE, less the words that every boot adds (kernel/arch/core/setup.c). */
#define COMMAND_LINE_MOST 768
/* Sizes of struct ob_config in older releases. */
#define CONFIG_SIZE_BEFORE_PANIC offsetof(struct ob_config, panic)
#define CONFIG_SIZE_BEFORE_KERNEL offsetof(struct ob_config, kernel)
#define CONFIG_SIZE_BEFORE_FLAGS offsetof(struct ob_config, flags)
/* Most spare interfaces: half of the devices that a kernel can have. */
#define SPARE_INTERFACES_MOST 32
#define MEMORY_STEP (4ull << 20)
#define MEMORY_MINIMUM (4ull << 20)
#define MEMORY_FOR_DISKS (16ull << 20)
#define MEMORY_DEFAULT_MINIMUM (64ull << 20)
#define LEVEL_INFO 6

/* Stores why booting fails. Returns the error. */
static __attribute__((format(printf, 3, 4))) int fail(struct ob_instance *instance, int error,
						      const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(instance->error, sizeof(instance->error), format, arguments);
	va_end(arguments);
	return error;
}

const char *ob_boot_error_on(struct ob_instance *instance)
{
	return instance ? instance->error : "no instance";
}

static int make_host(struct ob_instance *instance)
{
	int error = ob_fork_hook_install();

	if (error)
		return fail(instance, error, "the host refuses a hook for fork: %s",
			    strerror(-error));
	if (instance->host)
		return 0;
	error = ob_platform_host_new(&instance->upcalls, &instance->host);
	if (error)
		return fail(instance, error,
			    "there are %d kernels already, which is the most that a "
			    "process can have: free an instance",
			    OB_HOSTS_MOST);
	return 0;
}

static int choose_vcpus(struct ob_instance *instance, const struct ob_config *config,
			struct ob_boot_parameters *parameters)
{
	uint32_t processors = ob_platform_processors();

	if (config->vcpus > MAX_VCPUS)
		return fail(instance, -EINVAL, "vcpus is %u: use 1 to %d, or 0 for as many as the "
			    "host has",
			    config->vcpus, MAX_VCPUS);
	if (config->vcpus)
		parameters->vcpus = config->vcpus;
	else
		parameters->vcpus = processors < MAX_VCPUS ? processors : MAX_VCPUS;
	return 0;
}

/*
 * Half of what the cgroups leave, if that is less than other kernels get. Else UINT64_MAX. The rest
 * changes all the time, but a snapshot serves one size: so there are four sizes from each
 * power of two to the next.
 */
static uint64_t memory_by_cgroups(uint64_t otherwise)
{
	uint64_t memory = ob_platform_memory_left() / 2;

	if (memory >= otherwise)
		return UINT64_MAX;
	if (memory <= MEMORY_FOR_DISKS)
		return MEMORY_FOR_DISKS;
	return memory - memory % ((1ull << (63 - __builtin_clzll(memory))) / 4);
}

static uint64_t memory_by_host(void)
{
	uint64_t memory = ob_platform_memory_host() / 4;

	return memory > MEMORY_DEFAULT_MINIMUM ? memory : MEMORY_DEFAULT_MINIMUM;
}

uint64_t ob_memory_default(void)
{
	uint64_t host = memory_by_host(), cgroups = memory_by_cgroups(host);

	return cgroups < host ? cgroups : host;
}

static int choose_memory(struct ob_instance *instance, const struct ob_config *config,
			 struct ob_boot_parameters *parameters)
{
	uint64_t memory = config->memory, least = memory, most = ob_platform_memory_most();
	uint64_t host = memory_by_host(), cgroups;

	if (memory && memory < MEMORY_MINIMUM)
		return fail(instance, -EINVAL,
			    "memory is %llu bytes: use at least %llu MB, or 0 for a "
			    "quarter of the host's",
			    (unsigned long long)memory, MEMORY_MINIMUM >> 20);
	instance->is_limited = false;
	if (!memory) {
		cgroups = memory_by_cgroups(host);
		instance->is_limited = cgroups < host;
		memory = instance->is_limited ? cgroups : host;
		least = memory < MEMORY_DEFAULT_MINIMUM ? memory : MEMORY_DEFAULT_MINIMUM;
	}
	if (most < least)
		return fail(instance, -ENOMEM, "the kernel's memory is a file of %llu MB at least: "
			    "files are limited to %llu KB (ulimit -f)",
			    (unsigned long long)least >> 20, (unsigned long long)most >> 10);
	if (memory > most)
		memory = most;
	parameters->memory = memory - memory % MEMORY_STEP;
	return 0;
}

static int choose_log(struct ob_instance *instance, const struct ob_config *config,
		      struct ob_boot_parameters *parameters)
{
	int level = config->log_level;

	if (level == OB_LOG_DEFAULT)
		level = ob_log_level_from_environment();
	else if (level < 0 || level > 7)
		return fail(instance, -EINVAL, "log_level is %d: use 0 to 7, or OB_LOG_DEFAULT",
			    level);
	if (level == OB_LOG_INVALID)
		return fail(instance, -EINVAL,
			    "OUTBOARD_LOG: use emerg, alert, crit, err, warning, "
			    "notice, info, debug, or 0 to 7");
	level = ob_log_configure(&instance->log, level, config);
	/* The kernel's lowest level is 0. ob_log_line drops lines that are not wanted. */
	parameters->log_level = level < 0 ? 0 : (uint32_t)level;
	return 0;
}

/* Completes the program's configuration, which may be an older library's, or NULL. */
static int complete(struct ob_instance *instance, const struct ob_config *given,
		    struct ob_config *config)
{
	*config = (struct ob_config){ .size = sizeof(*config), .log_level = OB_LOG_DEFAULT };
	if (!given)
		return 0;
	if (given->size != sizeof(*config) && given->size != CONFIG_SIZE_BEFORE_FLAGS &&
	    given->size != CONFIG_SIZE_BEFORE_KERNEL &&
	    given->size != CONFIG_SIZE_BEFORE_PANIC)
		return fail(instance, -EINVAL,
			    "size of struct ob_config is %zu, this library's is %zu: "
			    "recompile the program",
			    given->size, sizeof(*config));
	memcpy(config, given, given->size);
	return 0;
}

static int choose(struct ob_instance *instance, const struct ob_config *config,
		  struct ob_boot_parameters *parameters)
{
	int error;

	if (config->flags & ~(OB_SHARED_MEMORY | OB_CONTAIN_PANIC))
		return fail(instance, -EINVAL,
			    "flags is %#x: use OB_SHARED_MEMORY, OB_CONTAIN_PANIC, both or 0",
			    config->flags);
	if (config->spare_interfaces > SPARE_INTERFACES_MOST)
		return fail(instance, -EINVAL, "spare_interfaces is %u: use 0 to %u",
			    config->spare_interfaces, SPARE_INTERFACES_MOST);
	if (config->command_line && strlen(config->command_line) > COMMAND_LINE_MOST)
		return fail(instance, -EINVAL,
			    "command_line has %zu characters: the kernel has room "
			    "for %d",
			    strlen(config->command_line), COMMAND_LINE_MOST);
	parameters->command_line = config->command_line;
	parameters->components = config->components;
	parameters->spare_interfaces = config->spare_interfaces;
	error = choose_vcpus(instance, config, parameters);
	if (!error)
		error = choose_memory(instance, config, parameters);
	if (!error)
		error = choose_log(instance, config, parameters);
	return error;
}

/* Checked early, while the program can still boot without them. */
static int check_components(struct ob_instance *instance, const char *names)
{
	char name[64];
	size_t length;

	for (names += strspn(names, " "); *names; names += length, names += strspn(names, " ")) {
		length = strcspn(names, " ");
		if (length < sizeof(name)) {
			memcpy(name, names, length);
			name[length] = '\0';
		}
		if (length >= sizeof(name) || !ob_platform_component_is_known(name))
			return fail(instance, -ENOENT, "no component is called \"%.*s\"",
				    (int)length, names);
	}
	return 0;
}

#define LIMITED " (half of what memory limits of cgroups leave)"

/* One line of the log. */
static void report_limit(struct ob_instance *instance, uint64_t memory)
{
	char line[128];
	int length = snprintf(line, sizeof(line), "outboard: memory: %llu MB" LIMITED,
			      (unsigned long long)memory >> 20);

	ob_log_line(&instance->log, LEVEL_INFO, line, (uint64_t)length);
}

/* Address space that the kernel needs besides its memory: windows and stacks. */
#define WINDOWS_BYTES (100ull << 30)

static int fail_to_start(struct ob_instance *instance, uint64_t wanted,
			 const struct ob_boot_parameters *parameters, int error)
{
	char limits[192] = "";
	bool limited;

	if (error == -EINVAL && parameters->memory < MEMORY_FOR_DISKS)
		return fail(instance, error,
			    "memory is %llu bytes: a kernel with disks needs %llu MB",
			    (unsigned long long)wanted, MEMORY_FOR_DISKS >> 20);
	limited = ob_platform_limits_describe(parameters->memory + WINDOWS_BYTES, limits,
					   sizeof(limits));
	return fail(instance, error,
		    "the kernel does not start with %u vCPUs and %llu MB%s: %s%s%s",
		    parameters->vcpus, (unsigned long long)parameters->memory >> 20,
		    instance->is_limited ? LIMITED : "", strerror(-error),
		    limited ? "; limits of this process: " : "", limits);
}

static int load_image(struct ob_instance *instance, const char *path)
{
	char reason[256], limits[192] = "";
	bool limited;
	int error;

	if (instance->image && ob_image_is_same(instance->image, path))
		return 0;
	if (instance->image)
		ob_image_release(instance->image);
	instance->image = NULL;
	error = ob_image_take(path, instance->host, &instance->image, reason, sizeof(reason));
	if (!error)
		return 0;
	limited = error == -ENOMEM &&
		  ob_platform_limits_describe(WINDOWS_BYTES, limits, sizeof(limits));
	return fail(instance, error, "the kernel image %.150s cannot be loaded: %s%s%s",
		    path ? path : "of the library", reason,
		    limited ? "; limits of this process: " : "", limits);
}

/* An ob_platform_panic. May run in a signal handler, so it takes no lock. */
static unsigned int on_panic(void *argument, const char *text, size_t length)
{
	struct ob_instance *instance = argument;
	unsigned int rest = instance->panic ? 0 : OB_PLATFORM_PANIC_PRINT;

	if (instance->contains_panic) {
		ob_instance_set_state(instance, OB_INSTANCE_PANICKED);
		ob_instance_close(instance);
		rest |= OB_PLATFORM_PANIC_STAY;
	}
	if (instance->panic)
		instance->panic(instance->panic_context, text, length);
	return rest;
}

static uint64_t last_boot;

/* Each kernel of this process gets another number: outboard/gate.h. 0: there are no more. */
static uint32_t next_boot(void)
{
	uint64_t boot;

	do {
		boot = __atomic_add_fetch(&last_boot, 1, __ATOMIC_RELAXED);
	} while (!(uint16_t)boot);
	return boot > UINT32_MAX ? 0 : (uint32_t)boot;
}

/*
 * Leaves a kernel whose threads may go on for ever. The platform's signal handlers stay: kernel
 * code takes faults. The program's function for the log is not called any more.
 */
static void abandon(struct ob_instance *instance)
{
	ob_instance_close(instance);
	ob_log_leave(&instance->log);
	ob_instance_set_state(instance, OB_INSTANCE_STUCK);
}

/*
 * Releases everything of a kernel that has stopped, or never ran. `halted`: as the kernel's halt
 * stored it.
 */
static void clean_up(struct ob_instance *instance, int halted)
{
	bool is_stuck = halted == OB_HALTED_IN_USE || ob_platform_has_left_behind(instance->host);

	ob_instance_close(instance);
	/* DHCP clients log. */
	is_stuck |= !ob_net_halted(instance, is_stuck);
	if (is_stuck) {
		abandon(instance);
		return;
	}
	ob_log_close(&instance->log);
	ob_platform_stop(instance->host);
	ob_instance_attach(instance, NULL);
	if (instance->image->upcalls->free()) {
		ob_instance_set_state(instance, OB_INSTANCE_STUCK);
		return;
	}
	if (ob_image_renew(instance->image)) {
		/* Its memory stays, and is of no use. */
		instance->image = NULL;
	}
	ob_instance_set_state(instance, OB_INSTANCE_EMPTY);
}

static int start_kernel(struct ob_instance *instance, uint64_t wanted,
			const struct ob_boot_parameters *parameters)
{
	const struct ob_upcalls *kernel = instance->image->upcalls;
	int halted, halt_error, error;

	ob_instance_set_state(instance, OB_INSTANCE_RUNNING);
	ob_instance_attach(instance, kernel);
	error = kernel->boot(parameters);
	ob_platform_snapshot_done(instance->host);
	if (!error)
		return 0;
	/* The kernel runs if only a component is missing. */
	halt_error = kernel->halt(&halted);
	if (error == -ETIMEDOUT && !halted) {
		abandon(instance);
		return fail(instance, error, "the kernel does not start: it, or a component of "
			    "\"%s\", waits for something that does not come",
			    parameters->components ? parameters->components : "");
	}
	if (halted || halt_error == -ENODEV)
		clean_up(instance, halted);
	else
		abandon(instance);
	if (halted)
		return fail(instance, error, "a component of \"%s\" cannot be loaded: %s",
			    parameters->components, strerror(-error));
	return fail_to_start(instance, wanted, parameters, error);
}

static int start(struct ob_instance *instance, const struct ob_config *config,
		 struct ob_boot_parameters *parameters)
{
	int error;

	instance->panic = config->panic;
	instance->panic_context = config->panic_context;
	/* The booting thread could not report a panic during the boot. */
	instance->contains_panic = false;
	ob_platform_set_panic(instance->host, on_panic, instance);
	ob_platform_share_memory(instance->host, config->flags & OB_SHARED_MEMORY);
	error = ob_platform_start(instance->host, ob_log_line, &instance->log);
	if (error)
		return fail(instance, error, "the host refuses signal or thread hooks: %s",
			    strerror(-error));
	error = check_components(instance, config->components ? config->components : "");
	if (error) {
		ob_platform_stop(instance->host);
		return error;
	}
	parameters->boot = next_boot();
	if (!parameters->boot) {
		ob_platform_stop(instance->host);
		return fail(instance, -EAGAIN, "this process has booted four thousand million "
			    "kernels, and there are no numbers for more");
	}
	parameters->snapshot = config->snapshots &&
			       ob_snapshot_use(instance, config->snapshots, parameters);
	if (instance->is_limited)
		report_limit(instance, parameters->memory);
	error = start_kernel(instance, config->memory, parameters);
	instance->contains_panic = !error && (config->flags & OB_CONTAIN_PANIC);
	return error;
}

static int check_state(struct ob_instance *instance)
{
	switch (instance->state) {
	case OB_INSTANCE_RUNNING:
		return fail(instance, -EALREADY, "a kernel runs already: halt it first, or boot "
			    "another instance");
	case OB_INSTANCE_STUCK:
		return fail(instance, -EBUSY, "threads have not left the kernel that was halted: "
			    "boot another instance");
	case OB_INSTANCE_PANICKED:
		return fail(instance, -EBUSY, "this kernel has panicked: boot another instance");
	case OB_INSTANCE_EMPTY:
		break;
	}
	return 0;
}

static int boot(struct ob_instance *instance, const struct ob_config *given)
{
	struct ob_boot_parameters parameters = { 0 };
	struct ob_config config;
	int error;

	instance->error[0] = '\0';
	error = check_state(instance);
	if (!error)
		error = make_host(instance);
	if (!error)
		error = complete(instance, given, &config);
	if (!error)
		error = choose(instance, &config, &parameters);
	if (!error)
		error = load_image(instance, config.kernel);
	if (!error)
		error = start(instance, &config, &parameters);
	return error;
}

static int check_handle(const struct ob_instance *instance)
{
	if (!instance)
		return -EINVAL;
	return instance->taken ? 0 : -ENODEV;
}

static void prepare(struct ob_instance *instance, bool runs_programs)
{
	if (check_handle(instance))
		return;
	ob_fork_hook_catch_up();
	pthread_mutex_lock(&instance->mutex);
	/* If loading fails here, ob_boot tries again and reports the reason. */
	if (instance->state == OB_INSTANCE_EMPTY && !make_host(instance)) {
		load_image(instance, NULL);
		/*
		 * After the fork hook above: so in a child, the platform's hook finds no kernel
		 * attached.
		 */
		ob_platform_prepare(instance->host);
		if (runs_programs)
			ob_platform_prepare_programs(instance->host);
		ob_platform_memory_left();
	}
	instance->error[0] = '\0';
	pthread_mutex_unlock(&instance->mutex);
}

void ob_prepare_on(struct ob_instance *instance)
{
	prepare(instance, false);
}

void ob_prepare_programs_on(struct ob_instance *instance)
{
	prepare(instance, true);
}

int ob_boot_on(struct ob_instance *instance, const struct ob_config *config)
{
	int error = check_handle(instance);

	if (error)
		return error;
	ob_fork_hook_catch_up();
	pthread_mutex_lock(&instance->mutex);
	error = boot(instance, config);
	pthread_mutex_unlock(&instance->mutex);
	return error;
}

int ob_halt_on(struct ob_instance *instance)
{
	int halted = 0, error;

	if (!instance)
		return -EINVAL;
	if (__atomic_load_n(&instance->state, __ATOMIC_SEQ_CST) != OB_INSTANCE_EMPTY)
		ob_halt_hooks_run(instance);
	error = ob_upcall(instance, halt)(&halted);
	if (!halted)
		return error;
	pthread_mutex_lock(&instance->mutex);
	clean_up(instance, halted);
	pthread_mutex_unlock(&instance->mutex);
	return error;
}
