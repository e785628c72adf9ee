// SPDX-License-Identifier: GPL-2.0-only
/* The C API without handles: the default instance. syscall.c has ob_syscall, which is faster. */
#include <outboard/net.h>

#include "instance.h"

void ob_prepare(void)
{
	ob_prepare_on(&ob_default);
}

void ob_prepare_programs(void)
{
	ob_prepare_programs_on(&ob_default);
}

int ob_boot(const struct ob_config *config)
{
	return ob_boot_on(&ob_default, config);
}

const char *ob_boot_error(void)
{
	return ob_boot_error_on(&ob_default);
}

const char *ob_snapshot_status(void)
{
	return ob_snapshot_status_on(&ob_default);
}

int ob_halt(void)
{
	return ob_halt_on(&ob_default);
}

int ob_disk_add(const struct ob_disk_config *config, char name[32])
{
	return ob_disk_add_on(&ob_default, config, name);
}

int ob_disk_remove(int disk)
{
	return ob_disk_remove_on(&ob_default, disk);
}

int ob_dir_add(const struct ob_dir_config *config)
{
	return ob_dir_add_on(&ob_default, config);
}

int ob_dir_remove(int dir)
{
	return ob_dir_remove_on(&ob_default, dir);
}

int ob_component_load(const char *name, const char *parameters)
{
	return ob_component_load_on(&ob_default, name, parameters);
}

int ob_component_load_file(const char *path, const char *parameters)
{
	return ob_component_load_file_on(&ob_default, path, parameters);
}

int ob_component_unload(const char *name)
{
	return ob_component_unload_on(&ob_default, name);
}

int ob_component_list(ob_component_info_function *function, void *context)
{
	return ob_component_list_on(&ob_default, function, context);
}

int ob_net_add(const char *description, char name[16])
{
	return ob_net_add_on(&ob_default, description, name);
}

int ob_net_configure(const char *name, const char *changes)
{
	return ob_net_configure_on(&ob_default, name, changes);
}

int ob_net_remove(int number)
{
	return ob_net_remove_on(&ob_default, number);
}

int ob_process_new(void)
{
	return ob_process_new_on(&ob_default);
}

int ob_process_clone(unsigned long flags, int *number)
{
	return ob_process_clone_on(&ob_default, flags, number);
}

int ob_process_claim(int number)
{
	return ob_process_claim_on(&ob_default, number);
}

int ob_process_exec(const char *name)
{
	return ob_process_exec_on(&ob_default, name);
}

int ob_process_leave(void)
{
	return ob_process_leave_on(&ob_default);
}

int ob_spawn(const char *path, const char *const arguments[], const char *const environment[])
{
	return ob_spawn_on(&ob_default, path, arguments, environment);
}
