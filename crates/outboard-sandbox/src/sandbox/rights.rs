// SPDX-License-Identifier: GPL-2.0-only
//! Rights of the process: capabilities, namespaces, memory.

use super::access::HostAccess;
use caps::{CapSet, Capability, CapsHashSet};
use outboard::{option, System};
use outboard_error::{Error, Result};
use std::fs::File;
use std::io::{self, Write};

/// Capabilities that root keeps, to copy other users' files with owners and attributes.
const FOR_FILES: &[Capability] = &[
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_SETFCAP,
];
/// The capability to create device nodes.
const FOR_NODES: Capability = Capability::CAP_MKNOD;
/// The capability to read and set attributes of the namespaces "trusted" and "security", which
/// other users do not even see.
const FOR_ATTRIBUTES: &[Capability] = &[Capability::CAP_SYS_ADMIN];

/// Most bytes of memory besides the kernel's, which has a limit of its own.
const MEMORY: u64 = 4 << 30;

/// Enters namespaces of its own, if the host allows that: no shared memory of others. The user id
/// stays. Not one of the network: seccomp and Landlock refuse sockets, and the host needs half a
/// millisecond to make it.
pub fn separate() {
    // If the host refuses namespaces, the rest of the sandbox must suffice.
    let _ = unshare_user(libc::CLONE_NEWUSER | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS);
}

/// Enters namespaces of its own, among them a user namespace that keeps the user id.
pub fn unshare_user(apart: i32) -> io::Result<()> {
    let user = System::Host.effective_user();
    let group = System::Host.effective_group();
    System::Host.unshare(apart)?;
    // Without these maps the process is nobody, who owns no file, and could not use the snapshot.
    for (file, line) in [
        ("uid_map", format!("{user} {user} 1")),
        ("setgroups", "deny".to_owned()),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        let opened = File::options()
            .write(true)
            .open(format!("/proc/self/{file}"));
        let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    Ok(())
}

/// A process that may create device nodes must not be able to open them: a node gives access to the
/// disk. If the host refuses own mounts, as in containers, its rules for devices must suffice.
pub fn hide_devices(access: &HostAccess) {
    if access.makes_nodes && System::Host.unshare(libc::CLONE_NEWNS).is_ok() {
        let _ = System::Host.hide_devices();
    }
}

/// Drops capabilities of the calling thread and the threads that it creates.
pub fn drop_capabilities(access: &HostAccess) -> Result<()> {
    let drop = || {
        let had = caps::read(None, CapSet::Permitted)?;
        let mut wanted = CapsHashSet::new();
        if !access.is_images_only() {
            wanted.extend(FOR_FILES);
        }
        if !access.writes.is_empty() || access.keeps_attributes && !access.reads.is_empty() {
            wanted.extend(FOR_ATTRIBUTES);
        }
        if access.makes_nodes {
            wanted.insert(FOR_NODES);
        }
        let kept: CapsHashSet = had.intersection(&wanted).copied().collect();
        caps::set(None, CapSet::Effective, &kept)?;
        caps::set(None, CapSet::Permitted, &kept)?;
        caps::clear(None, CapSet::Inheritable)
    };
    drop().map_err(|error| Error::Failed(format!("cannot give up capabilities: {error}")))
}

/// Drops capabilities of a program that works on images: run by root, it may read and write images
/// of others. `attributes`: it also keeps what root needs to see all attributes of a file.
pub fn drop_all_but_files(attributes: bool) -> std::result::Result<(), caps::errors::CapsError> {
    let had = caps::read(None, CapSet::Permitted)?;
    let mut wanted: CapsHashSet = FOR_FILES.iter().copied().collect();
    if attributes {
        wanted.extend(FOR_ATTRIBUTES);
    }
    let kept: CapsHashSet = had.intersection(&wanted).copied().collect();
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::clear(None, CapSet::Inheritable)
}

/// Limits the memory of the process. A kernel that checks its own memory has a map of all
/// addresses.
pub fn limit_memory() -> Result<()> {
    if option(c"CONFIG_KASAN").is_some() {
        return Ok(());
    }
    System::Host
        .set_limit(libc::RLIMIT_DATA, MEMORY)
        .map_err(|error| Error::failed("cannot limit memory", &error))
}
