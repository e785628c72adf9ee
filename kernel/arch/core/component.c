// SPDX-License-Identifier: GPL-2.0-only
/*
 * Components: modules that the host carries, loaded when Linux or the program asks for them.
 *
 * Linux's request_module() starts a program of the user's. Here the link wraps it, and it asks the
 * host, which knows the modules, their aliases and what each of them needs. A kernel worker loads
 * them, whatever client asked: it has the rights, the root directory and the stack.
 */
#include <linux/types.h>
#include <linux/kdev_t.h>
#include <linux/kmod.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/stat.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/workqueue.h>
#define INCLUDE_VERMAGIC
#include <linux/vermagic.h>
#include <asm/host.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include <outboard/gate.h>
#include "component.h"
#include "gate.h"
#include "init.h"
#include "machine.h"
#include "unpack.h"

const char ob_kernel_version_magic[] = VERMAGIC_STRING;

struct ob_load {
	struct work_struct work;
	const void *image;		/* NULL: found by name */
	u64 size;
	const char *parameters;
	long result;
	bool unattended;		/* nobody waits: the request frees itself */
	bool lacked_memory;		/* it, or one that it needed, failed for that */
	char name[MODULE_NAME_LEN];
};

static long ob_insert(const void *image, u64 size, const char *parameters)
{
	if (!ob_layout.modules_end && !ob_machine.ram_is_executable)
		return -ENOSYS;
	return sys_call_table[__NR_init_module]((long)image, size, (long)parameters, 0, 0, 0);
}

static bool ob_is_live(const char *name)
{
	struct module *module;
	bool live;

	rcu_read_lock_sched();
	module = find_module(name);
	live = module && module->state == MODULE_STATE_LIVE;
	rcu_read_unlock_sched();
	return live;
}

static long ob_insert_carried(const struct ob_component *component, const char *parameters)
{
	u64 size = component->size;
	void *image;
	long error;

	if (!ob_is_packed(component->image, size))
		return ob_insert(component->image, size, parameters);
	image = ob_unpack(component->image, &size);
	if (IS_ERR(image))
		return PTR_ERR(image);
	error = ob_insert(image, size, parameters);
	kvfree(image);
	return error;
}

/* If another task loads the same one now, Linux waits for that and returns -EEXIST. */
static long ob_load_component(const struct ob_component *component, const char *parameters)
{
	long error;

	if (ob_is_live(component->name))
		return 0;
	error = ob_insert_carried(component, component->wanted ? parameters : "");
	return error == -EEXIST ? 0 : error;
}

/*
 * An alias may name several modules. One that fails (a driver for what this processor lacks) does
 * not stop the others, and one that loads is enough. Else the first error is the cause of the rest.
 */
static long ob_load_by_name(const char *name, const char *parameters)
{
	struct ob_component component;
	bool loaded = false;
	long first = 0;
	u32 index;

	for (index = 0; !ob_host_component_find(ob_host, name, index, &component); index++) {
		long error = ob_load_component(&component, parameters);

		if (!error && component.wanted)
			loaded = true;
		if (error && !first)
			first = error;
	}
	if (loaded)
		return 0;
	return first ? first : -ENOENT;
}

/*
 * Linux drops the reason why a component was not loaded, and reports an unknown file system. So a
 * list has each task that may ask for components, and a note if one of them found no memory. A
 * field of struct thread_struct would serve, but all of Linux depends on that struct.
 */
struct ob_asker {
	struct list_head list;
	struct task_struct *task;
	bool lacked_memory;
};

static LIST_HEAD(ob_askers);
static DEFINE_SPINLOCK(ob_askers_lock);

static void ob_asker_begin(struct ob_asker *asker)
{
	asker->task = current;
	asker->lacked_memory = false;
	guard(spinlock)(&ob_askers_lock);
	list_add(&asker->list, &ob_askers);
}

static bool ob_asker_end(struct ob_asker *asker)
{
	guard(spinlock)(&ob_askers_lock);
	list_del(&asker->list);
	return asker->lacked_memory;
}

/* A component that the calling task has asked for found no memory. */
static void ob_asker_note(void)
{
	struct ob_asker *asker;

	guard(spinlock)(&ob_askers_lock);
	list_for_each_entry(asker, &ob_askers, list)
		if (asker->task == current)
			asker->lacked_memory = true;
}

static long ob_explain_unknown(long result, bool lacked_memory)
{
	return result == -ENODEV && lacked_memory ? -ENOMEM : result;
}

long ob_sys_mount(char __user *source, char __user *directory, char __user *type,
		  unsigned long flags, void __user *data)
{
	struct ob_asker asker;
	long result;

	ob_asker_begin(&asker);
	result = sys_mount(source, directory, type, flags, data);
	return ob_explain_unknown(result, ob_asker_end(&asker));
}

long ob_sys_fsopen(const char __user *type, unsigned int flags)
{
	struct ob_asker asker;
	long result;

	ob_asker_begin(&asker);
	result = sys_fsopen(type, flags);
	return ob_explain_unknown(result, ob_asker_end(&asker));
}

static void ob_load_work(struct work_struct *work)
{
	struct ob_load *load = container_of(work, struct ob_load, work);
	struct ob_asker asker;

	ob_asker_begin(&asker);
	if (load->image)
		load->result = ob_insert(load->image, load->size, load->parameters);
	else
		load->result = ob_load_by_name(load->name, load->parameters);
	load->lacked_memory = ob_asker_end(&asker) && load->result;
	load->lacked_memory |= load->result == -ENOMEM;
	if (load->unattended)
		kfree(load);
}

static long ob_load_and_wait(struct ob_load *load)
{
	INIT_WORK_ONSTACK(&load->work, ob_load_work);
	queue_work(system_unbound_wq, &load->work);
	flush_work(&load->work);
	destroy_work_on_stack(&load->work);
	if (load->lacked_memory)
		ob_asker_note();
	return load->result;
}

static int ob_load_later(const char *name)
{
	struct ob_load *load = kzalloc(sizeof(*load), GFP_KERNEL);

	if (!load)
		return -ENOMEM;
	INIT_WORK(&load->work, ob_load_work);
	strscpy(load->name, name);
	load->parameters = "";
	load->unattended = true;
	queue_work(system_unbound_wq, &load->work);
	return 0;
}

int __wrap___request_module(bool wait, const char *format, ...);

/*
 * As in kernel/module/kmod.c, an empty modprobe_path forbids loading.
 *
 * Dodge __request_module: asks the host for a component, instead of starting a program.
 */
int __wrap___request_module(bool wait, const char *format, ...)
{
	struct ob_load load = { .parameters = "" };
	struct ob_component unused;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(load.name, sizeof(load.name), format, arguments);
	va_end(arguments);
	if (length >= sizeof(load.name))
		return -ENAMETOOLONG;
	if (!modprobe_path[0] || ob_host_component_find(ob_host, load.name, 0, &unused))
		return -ENOENT;
	return wait ? ob_load_and_wait(&load) : ob_load_later(load.name);
}

/*
 * `names` are words with spaces between. Returns the first error, but loads the others. Blocks: a
 * boot that has waited too long leaves the caller here, and its names may be gone.
 */
int ob_components_load(const char *caller_names)
{
	char *copy = kstrdup(caller_names, GFP_KERNEL);
	const char *names = copy;
	int first = 0;

	if (!copy)
		return -ENOMEM;
	while (*(names = skip_spaces(names))) {
		size_t length = strcspn(names, " ");
		struct ob_load load = { .parameters = "" };
		long error = -ENAMETOOLONG;

		if (length < sizeof(load.name)) {
			memcpy(load.name, names, length);
			error = ob_load_and_wait(&load);
		}
		if (error && !first)
			first = error;
		names += length;
	}
	kfree(copy);
	return first;
}

static long ob_load_call(void *load)
{
	return ob_load_and_wait(load);
}

int ob_kernel_component_load(const char *name, const char *parameters)
{
	struct ob_load load = { .parameters = parameters };

	if (strscpy(load.name, name) < 0)
		return -ENOENT;
	return ob_call(ob_load_call, &load);
}

int ob_kernel_component_insert(const void *image, u64 size, const char *parameters)
{
	struct ob_load load = { .image = image, .size = size, .parameters = parameters };

	return ob_call(ob_load_call, &load);
}

/* kernel/module/main.c: all modules, the newest first; changed under module_mutex. */
extern struct list_head modules;

struct ob_state_query {
	u32 index;
	struct ob_component_state *state;
};

static void ob_state_fill(struct module *module, struct ob_component_state *state)
{
	strscpy(state->name, module->name);
	state->memory = 0;
	for_each_mod_mem_type(type)
		state->memory += module->mem[type].size;
	state->users = max(module_refcount(module), 0);
}

static long ob_state_call(void *argument)
{
	struct ob_state_query *query = argument;
	struct module *module;
	long result = -ENOENT;
	u32 index = 0;

	rcu_read_lock_sched();
	list_for_each_entry_rcu(module, &modules, list, true) {
		if (module->state != MODULE_STATE_LIVE || index++ != query->index)
			continue;
		ob_state_fill(module, query->state);
		result = 0;
		break;
	}
	rcu_read_unlock_sched();
	return result;
}

int ob_kernel_component_state(u32 index, struct ob_component_state *state)
{
	struct ob_state_query query = { .index = index, .state = state };

	return ob_call(ob_state_call, &query);
}

/* After /dev is there (init.c). */
static int __init ob_component_nodes(void)
{
	struct ob_component_node node;
	u32 index;

	for (index = 0; !ob_host_component_node(ob_host, index, &node); index++)
		ob_device_node(node.name, node.is_block ? S_IFBLK : S_IFCHR,
			       MKDEV(node.major, node.minor));
	return 0;
}
late_initcall_sync(ob_component_nodes);
