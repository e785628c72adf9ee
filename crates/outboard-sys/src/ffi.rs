// SPDX-License-Identifier: GPL-2.0-only
//! The C functions, types and constants of `outboard/outboard.h`, under the same names.

// The header documents each of them.
#![allow(missing_docs)]

use libc::{c_char, c_int, c_long, c_ulong, c_void, iovec, size_t};

pub const OB_LOG_DEFAULT: c_int = -1;
pub const OB_DISK_READ_ONLY: u32 = 1;
pub const OB_DISK_NO_LOCK: u32 = 2;
pub const OB_DIR_READ_ONLY: u32 = 1;
pub const OB_DIR_KEEP_OWNERS: u32 = 2;

/// Room for the name of a disk, its final NUL included.
pub const DISK_NAME_SIZE: usize = 32;
pub const LINK_NAME_SIZE: usize = 16;

pub type PanicFunction = extern "C" fn(*mut c_void, *const c_char, size_t);
pub type LogFunction = extern "C" fn(*mut c_void, c_int, *const c_char, size_t);

#[repr(C)]
pub struct ob_config {
    pub size: size_t,
    pub vcpus: u32,
    pub memory: u64,
    pub command_line: *const c_char,
    pub log_level: c_int,
    pub log: Option<LogFunction>,
    pub log_context: *mut c_void,
    pub components: *const c_char,
    pub snapshots: *const c_char,
    pub panic: Option<PanicFunction>,
    pub panic_context: *mut c_void,
    pub kernel: *const c_char,
    pub flags: u32,
    pub spare_interfaces: u32,
}

/// Of `ob_config.flags`: other processes may map the kernel's memory.
pub const OB_SHARED_MEMORY: u32 = 1;
/// Of `ob_config.flags`: a panic ends the kernel, not the process.
pub const OB_CONTAIN_PANIC: u32 = 2;

/// A handle; only pointers to it exist.
#[repr(C)]
pub struct ob_instance {
    _private: [u8; 0],
}

/// A handle; only pointers to it exist.
#[repr(C)]
pub struct ob_net_server {
    _private: [u8; 0],
}

/// A handle; only pointers to it exist.
#[repr(C)]
pub struct ob_net_nat {
    _private: [u8; 0],
}

/// Flags of `ob_net_nat_new`.
pub const OB_NET_NAT_NO_IPV6: u32 = 1;
pub const OB_NET_NAT_NO_HOST_LOOPBACK: u32 = 2;

pub type LineFunction = extern "C" fn(*mut c_void, *const c_char);
pub type TransferFunction = extern "C" fn(*mut c_void, u64, *const iovec, c_int) -> c_int;
pub type RangeFunction = extern "C" fn(*mut c_void, u64, u64) -> c_int;

#[repr(C)]
pub struct ob_disk_operations {
    pub size: size_t,
    pub read: TransferFunction,
    pub write: TransferFunction,
    pub flush: extern "C" fn(*mut c_void) -> c_int,
    pub discard: RangeFunction,
    pub write_zeroes: RangeFunction,
    pub closed: extern "C" fn(*mut c_void),
}

#[repr(C)]
pub struct ob_disk_config {
    pub size: size_t,
    pub path: *const c_char,
    pub flags: u32,
    pub sector_size: u32,
    pub operations: *const ob_disk_operations,
    pub context: *mut c_void,
    pub capacity: u64,
}

#[repr(C)]
pub struct ob_dir_config {
    pub size: size_t,
    pub path: *const c_char,
    pub tag: *const c_char,
    pub flags: u32,
    pub cache: u32,
}

#[repr(C)]
pub struct ob_component_info {
    pub size: size_t,
    pub name: *const c_char,
    pub file_size: u64,
    pub memory: u64,
    pub users: u32,
    pub is_loaded: u32,
}

pub type ComponentFunction = extern "C" fn(*mut c_void, *const ob_component_info) -> c_int;

extern "C" {
    pub fn ob_instance_new(instance: *mut *mut ob_instance) -> c_int;
    pub fn ob_instance_free(instance: *mut ob_instance) -> c_int;
    pub fn ob_instance_default() -> *mut ob_instance;
    pub fn ob_memory_default() -> u64;
    pub fn ob_log_to_stderr(
        context: *mut c_void,
        level: c_int,
        line: *const c_char,
        length: size_t,
    );
    pub fn ob_prepare_on(instance: *mut ob_instance);
    pub fn ob_prepare_programs_on(instance: *mut ob_instance);
    pub fn ob_boot_on(instance: *mut ob_instance, config: *const ob_config) -> c_int;
    pub fn ob_boot_error_on(instance: *mut ob_instance) -> *const c_char;
    pub fn ob_snapshot_status_on(instance: *mut ob_instance) -> *const c_char;
    pub fn ob_halt_on(instance: *mut ob_instance) -> c_int;
    pub fn ob_halt_hook_add(
        function: extern "C" fn(*mut c_void, *mut ob_instance),
        context: *mut c_void,
    ) -> c_int;
    pub fn ob_syscall_on(instance: *mut ob_instance, number: c_long, ...) -> c_long;
    pub fn ob_interrupt_on(instance: *mut ob_instance, thread: c_int) -> c_int;
    pub fn ob_abort_call_on(instance: *mut ob_instance, thread: c_int) -> c_int;
    pub fn ob_process_new_on(instance: *mut ob_instance) -> c_int;
    pub fn ob_process_clone_on(
        instance: *mut ob_instance,
        flags: c_ulong,
        number: *mut c_int,
    ) -> c_int;
    pub fn ob_process_claim_on(instance: *mut ob_instance, number: c_int) -> c_int;
    pub fn ob_process_exec_on(instance: *mut ob_instance, name: *const c_char) -> c_int;
    pub fn ob_process_leave_on(instance: *mut ob_instance) -> c_int;
    pub fn ob_spawn_on(
        instance: *mut ob_instance,
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int;
    pub fn ob_disk_add_on(
        instance: *mut ob_instance,
        config: *const ob_disk_config,
        name: *mut c_char,
    ) -> c_int;
    pub fn ob_disk_remove_on(instance: *mut ob_instance, disk: c_int) -> c_int;
    pub fn ob_dir_add_on(instance: *mut ob_instance, config: *const ob_dir_config) -> c_int;
    pub fn ob_dir_remove_on(instance: *mut ob_instance, dir: c_int) -> c_int;
    pub fn ob_dir_error() -> *const c_char;
    pub fn ob_component_load_on(
        instance: *mut ob_instance,
        name: *const c_char,
        parameters: *const c_char,
    ) -> c_int;
    pub fn ob_component_load_file_on(
        instance: *mut ob_instance,
        path: *const c_char,
        parameters: *const c_char,
    ) -> c_int;
    pub fn ob_component_unload_on(instance: *mut ob_instance, name: *const c_char) -> c_int;
    pub fn ob_component_list_on(
        instance: *mut ob_instance,
        function: ComponentFunction,
        context: *mut c_void,
    ) -> c_int;
    pub fn ob_component_error() -> *const c_char;
    pub fn ob_net_add_on(
        instance: *mut ob_instance,
        description: *const c_char,
        name: *mut c_char,
    ) -> c_int;
    pub fn ob_net_server_new(
        hub: *const c_char,
        socket: *const c_char,
        log: Option<LineFunction>,
        context: *mut c_void,
        server: *mut *mut ob_net_server,
    ) -> c_int;
    pub fn ob_net_server_start(server: *mut ob_net_server, opener: c_int) -> c_int;
    pub fn ob_net_server_open_files(server: *const ob_net_server, socket: c_int);
    pub fn ob_net_server_free(server: *mut ob_net_server);
    pub fn ob_net_nat_new(forwards: *const c_char, flags: u32, nat: *mut *mut ob_net_nat) -> c_int;
    pub fn ob_net_nat_serve(nat: *mut ob_net_nat, socket: c_int, gate: c_int);
    pub fn ob_net_nat_free(nat: *mut ob_net_nat);
    pub fn ob_net_configure_on(
        instance: *mut ob_instance,
        name: *const c_char,
        changes: *const c_char,
    ) -> c_int;
    pub fn ob_net_remove_on(instance: *mut ob_instance, number: c_int) -> c_int;
    pub fn ob_net_error() -> *const c_char;
    pub fn ob_file_lock(fd: c_int, exclusive: c_int) -> c_int;
    pub fn ob_file_unlock(fd: c_int);
    pub fn ob_version() -> *const c_char;
    pub fn ob_kernel_release() -> *const c_char;
    pub fn ob_profile() -> *const c_char;
    pub fn ob_kernel_config(option: *const c_char) -> *const c_char;
}
