// SPDX-License-Identifier: GPL-2.0-only
//! As whom a host thread calls the kernel in this process: owner and mask of the files that it
//! makes, and whether its writes leave set-user-ID bits alone. All else stays root's.
//!
//! A file server does this for the users whose requests it carries out. Rights are not checked
//! here: capabilities stay when the user changes, except the one that says so.

use crate::system::{pointer, pointer_mut, System};
use std::cell::Cell;
use std::io;

/// What a thread has.
#[derive(Clone, Copy)]
struct Current {
    user: u32,
    group: u32,
    umask: u32,
    /// Has CAP_FSETID: set-user-ID and set-group-ID bits stay when a file is changed.
    keeps_set_id: bool,
}

impl Current {
    fn set_group(&mut self, group: u32) -> io::Result<()> {
        if self.group != group {
            call(libc::SYS_setfsgid, [group as usize, 0, 0])?;
            self.group = group;
        }
        Ok(())
    }
}

/// What a thread has once it is prepared.
const ROOT: Current = Current {
    user: 0,
    group: 0,
    umask: 0,
    keeps_set_id: true,
};

const SECBIT_NO_SETUID_FIXUP: usize = 1 << 2;
const CAP_FSETID: u32 = 4;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySet {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

thread_local! {
    /// What this thread has now; `None`: it was not prepared.
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
}

/// Makes a system call of the kernel in this process that has only numbers as its arguments.
fn call(number: libc::c_long, a: [usize; 3]) -> io::Result<usize> {
    // SAFETY: the callers below pass no pointers, and none of the calls touches memory.
    unsafe { System::Kernel.call(number, [a[0], a[1], a[2], 0, 0, 0]) }
}

/// Gives the thread a mask of its own, and capabilities that a change of user leaves.
fn prepare() -> io::Result<Current> {
    call(libc::SYS_unshare, [libc::CLONE_FS as usize, 0, 0])?;
    let option = libc::PR_SET_SECUREBITS as usize;
    call(libc::SYS_prctl, [option, SECBIT_NO_SETUID_FIXUP, 0])?;
    call(libc::SYS_umask, [ROOT.umask as usize, 0, 0])?;
    Ok(ROOT)
}

fn set_keeps_set_id(keeps: bool) -> io::Result<()> {
    let mut header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let mut sets = [CapabilitySet::default(); 2];
    let arguments = [pointer_mut(&mut header), pointer_mut(&mut sets), 0, 0, 0, 0];
    // SAFETY: version 3 has two sets; all outlives the call.
    unsafe { System::Kernel.call(libc::SYS_capget, arguments) }?;
    let bit = 1 << CAP_FSETID;
    if keeps {
        sets[0].effective |= bit;
    } else {
        sets[0].effective &= !bit;
    }
    let arguments = [pointer(&header), pointer(&sets), 0, 0, 0, 0];
    // SAFETY: as above.
    unsafe { System::Kernel.call(libc::SYS_capset, arguments) }.map(drop)
}

/// What this thread has. Until it is stored again the thread counts as not prepared, so that after an
/// error it begins anew.
fn take() -> io::Result<Current> {
    match CURRENT.take() {
        Some(current) => Ok(current),
        None => prepare(),
    }
}

/// From now on, files that this thread makes belong to this user and group and do not get the
/// permissions of the mask, except where their directory has a default ACL.
pub fn make_files_as(user: u32, group: u32, umask: u32) -> io::Result<()> {
    keep_set_id(true)?;
    let mut current = take()?;
    if current.user != user {
        call(libc::SYS_setfsuid, [user as usize, 0, 0])?;
        current.user = user;
    }
    current.set_group(group)?;
    if current.umask != umask {
        call(libc::SYS_umask, [umask as usize, 0, 0])?;
        current.umask = umask;
    }
    CURRENT.set(Some(current));
    Ok(())
}

/// From now on, this thread changes data as a member of this group does. `privileged`: set-user-ID
/// and set-group-ID bits stay.
pub fn change_files_as(group: u32, privileged: bool) -> io::Result<()> {
    keep_set_id(privileged)?;
    let mut current = take()?;
    current.set_group(group)?;
    CURRENT.set(Some(current));
    Ok(())
}

/// Whether changes that this thread makes to files from now on leave their set-user-ID and
/// set-group-ID bits alone, as those of the privileged do.
pub fn keep_set_id(keep: bool) -> io::Result<()> {
    let mut current = take()?;
    if current.keeps_set_id != keep {
        set_keeps_set_id(keep)?;
        current.keeps_set_id = keep;
    }
    CURRENT.set(Some(current));
    Ok(())
}
