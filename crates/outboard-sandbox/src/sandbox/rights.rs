// SPDX-License-Identifier: GPL-2.0-only
//! Rights of the process: capabilities, name spaces, memory.

use super::HostAccess;
use crate::error::{Error, Result};
use caps::{CapSet, Capability, CapsHashSet};
use outboard::{option, System};
use std::fs::File;
use std::io::{self, Write};

/// What root keeps to copy files of others with their owners and attributes.
const FOR_FILES: &[Capability] = &[
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_SETFCAP,
];
/// And to make device nodes.
const FOR_NODES: Capability = Capability::CAP_MKNOD;
/// And to read and set attributes of the namespaces "trusted" and "security", which others do not even see.
const FOR_ATTRIBUTES: &[Capability] = &[Capability::CAP_SYS_ADMIN];

/// Most bytes of memory besides the kernel's own, which has a limit anyway.
const MEMORY: u64 = 4 << 30;

/// Name spaces of its own, where the host lets users have them: no network, no shared memory of others. The
/// user stays who it is.
pub fn separate() {
    let apart = libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // Where the host does not let users have them the rest of the sandbox has to do.
    let _ = unshare_user(apart);
}

/// Name spaces of its own, among them one of users, in which the user stays who it is.
pub fn unshare_user(apart: i32) -> io::Result<()> {
    let user = System::Host.effective_user();
    let group = System::Host.effective_group();
    System::Host.unshare(apart)?;
    // Without these lines it is nobody, who owns nothing: the snapshot is not used then.
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

/// Who may make device nodes shall not be able to open them: a node is as good as the disk. Where the host does not let
/// us have mounts of our own, as in containers, its rules for devices have to do.
pub fn hide_devices(access: &HostAccess) {
    if access.makes_nodes && System::Host.unshare(libc::CLONE_NEWNS).is_ok() {
        let _ = System::Host.hide_devices();
    }
}

/// For the calling thread and those that it creates.
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

/// Of a program that works on images: it may read and write those of others if root runs it.
pub fn drop_all_but_files() -> std::result::Result<(), caps::errors::CapsError> {
    let had = caps::read(None, CapSet::Permitted)?;
    let wanted: CapsHashSet = FOR_FILES.iter().copied().collect();
    let kept: CapsHashSet = had.intersection(&wanted).copied().collect();
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::clear(None, CapSet::Inheritable)
}

/// Of the process. A kernel that checks its own memory has a map of all addresses.
pub fn limit_memory() -> Result<()> {
    if option(c"CONFIG_KASAN").is_some() {
        return Ok(());
    }
    System::Host
        .set_limit(libc::RLIMIT_DATA, MEMORY)
        .map_err(|error| Error::failed("cannot limit memory", &error))
}
