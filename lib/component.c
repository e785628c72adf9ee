// SPDX-License-Identifier: GPL-2.0-only
/* Components: loads modules by name or from a file, explains failures, lists them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

#include "error.h"
#include "instance.h"

#define VERSION_KEY "vermagic="

#define fail(error, ...) ob_error_set(OB_ERROR_COMPONENT, error, __VA_ARGS__)

static void clear_error(void)
{
	ob_error_clear(OB_ERROR_COMPONENT);
}

const char *ob_component_error(void)
{
	return ob_error_text(OB_ERROR_COMPONENT);
}

static const char *reason(int error)
{
	switch (error) {
	case -ENODEV:
		return "no kernel runs, or the device that it is for does not exist";
	case -ENOSYS:
		return "this kernel was built without modules";
	case -ENOEXEC:
		return "not a module that this kernel can load";
	case -ENOENT:
		return "it uses a function that this kernel does not have";
	case -EINVAL:
		return "a parameter has a wrong value, or it cannot start; the kernel's log says "
		       "why";
	default:
		return strerror(-error);
	}
}

int ob_component_load_on(struct ob_instance *instance, const char *name, const char *parameters)
{
	int error;

	clear_error();
	if (!instance)
		return fail(-EINVAL, "no instance");
	if (!name)
		return fail(-EINVAL, "no name of a component");
	error = ob_upcall(instance, component_load)(name, parameters ? parameters : "");
	if (error == -ENOENT && ob_platform_components_problem())
		return fail(error, "%.100s: no such component, because there are none (%s)", name,
			    ob_platform_components_problem());
	if (error == -ENOENT && !ob_platform_component_is_known(name))
		return fail(error, "%s: no such component", name);
	return error ? fail(error, "%s: %s", name, reason(error)) : 0;
}

/*
 * Returns the module's version magic, or NULL. It is a string in .modinfo, after a NUL or at the
 * start.
 */
static const char *find_version(const char *image, size_t size)
{
	const char *found = memmem(image, size, VERSION_KEY, strlen(VERSION_KEY));

	if (!found)
		return NULL;
	found += strlen(VERSION_KEY);
	return memchr(found, '\0', size - (size_t)(found - image)) ? found : NULL;
}

/* Linux's error says only that the format is wrong. Its log has the details. */
static int fail_format(struct ob_instance *instance, const char *path, const char *image,
		       size_t size)
{
	const char *magic = ob_upcall(instance, version_magic);
	const char *version = find_version(image, size);

	if (!version)
		return fail(-ENOEXEC, "%s: not a kernel module", path);
	if (strcmp(version, magic))
		return fail(-ENOEXEC,
			    "%s was built for \"%.100s\", but this kernel is \"%s\": build it with "
			    "its 'make modules M=...'",
			    path, version, magic);
	return fail(-ENOEXEC, "%s: %s; the kernel's log says why", path, reason(-ENOEXEC));
}

static const char *file_reason(int error)
{
	switch (error) {
	case -ENOEXEC:
		return "not a kernel module";
	case -EIO:
		return "cannot be read";
	default:
		return strerror(-error);
	}
}

static int insert(struct ob_instance *instance, const char *path, const void *image, uint64_t size,
		  const char *parameters)
{
	int error;

	if (!parameters)
		parameters = "";
	error = ob_upcall(instance, component_insert)(image, size, parameters);
	if (error == -ENOEXEC)
		fail_format(instance, path, image, size);
	else if (error)
		fail(error, "%s: %s", path, error == -EEXIST ? "already loaded" : reason(error));
	return error;
}

int ob_component_load_file_on(struct ob_instance *instance, const char *path,
			      const char *parameters)
{
	uint64_t size;
	void *image;
	int error;

	clear_error();
	if (!instance)
		return fail(-EINVAL, "no instance");
	if (!path)
		return fail(-EINVAL, "no path of a component");
	error = ob_platform_file_read(path, &image, &size);
	if (error)
		return fail(error, "%s: %s", path, file_reason(error));
	error = insert(instance, path, image, size, parameters);
	ob_platform_file_free(image, size);
	return error;
}

int ob_component_unload_on(struct ob_instance *instance, const char *name)
{
	char plain[64];
	long error;

	clear_error();
	if (!instance)
		return fail(-EINVAL, "no instance");
	if (!name || strlen(name) >= sizeof(plain))
		return fail(-ENOENT, "no such component is loaded");
	strcpy(plain, name);
	for (char *dash = plain; (dash = strchr(dash, '-')); )
		*dash = '_';
	error = ob_syscall_on(instance, SYS_delete_module, plain, (long)O_NONBLOCK);
	if (error == -ENOENT)
		return fail((int)error, "%s: not loaded", name);
	if (error == -EWOULDBLOCK || error == -EBUSY)
		return fail(-EBUSY, "%s: in use", name);
	return error ? fail((int)error, "%s: %s", name, strerror(-(int)error)) : 0;
}

static int find_loaded(struct ob_instance *instance, const char *name,
		       struct ob_component_state *state)
{
	int error;

	for (uint32_t index = 0; !(error = ob_upcall(instance, component_state)(index, state));
	     index++)
		if (!strcmp(state->name, name))
			return 0;
	return error;
}

static int tell(ob_component_info_function *function, void *context,
		const struct ob_component *carried, const struct ob_component_state *state)
{
	struct ob_component_info info = { .size = sizeof(info) };

	info.name = carried ? carried->name : state->name;
	info.file_size = carried ? carried->size : 0;
	info.is_loaded = state != NULL;
	info.memory = state ? state->memory : 0;
	info.users = state ? state->users : 0;
	return function(context, &info);
}

int ob_component_list_on(struct ob_instance *instance, ob_component_info_function *function,
			 void *context)
{
	const char *problem = ob_platform_components_problem();
	struct ob_component_state state;
	struct ob_component component;
	int end = 0;

	clear_error();
	if (!instance)
		return fail(-EINVAL, "no instance");
	if (!function)
		return fail(-EINVAL, "no function to call for each component");
	for (uint32_t index = 0; !end && !ob_platform_component(index, &component); index++)
		end = tell(function, context, &component,
			   find_loaded(instance, component.name, &state) ? NULL : &state);
	for (uint32_t index = 0; !end && !ob_upcall(instance, component_state)(index, &state);
	     index++)
		if (!ob_platform_component_is_known(state.name))
			end = tell(function, context, NULL, &state);
	if (end)
		return end;
	return problem ? fail(-ENOENT, "no components came with the library (%s)", problem) : 0;
}
