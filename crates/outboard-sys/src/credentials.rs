// SPDX-License-Identifier: GPL-2.0-only
//! As whom a host thread calls a kernel of this process: owner and mask of the files that it
//! makes, and whether its writes leave set-user-ID bits alone. All else stays root's. A thread that
//! calls several kernels is somebody else in each.
//!
//! A file server does this for the users whose requests it carries out. Rights are not checked
//! here: capabilities stay when the user changes, except the one that says so.

use crate::instance::InstanceHandle;
use crate::system::{pointer, pointer_mut};
use crate::Instance;
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Weak};

/// The credentials of a thread.
#[derive(Clone, Copy)]
struct Current {
    user: u32,
    group: u32,
    umask: u32,
    /// Has CAP_FSETID: set-user-ID and set-group-ID bits stay when a file is changed.
    keeps_set_id: bool,
}

/// The credentials of a thread that was just prepared.
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
    /// The credentials of this thread, in each kernel that it was prepared for.
    static CURRENT: RefCell<Vec<(Weak<InstanceHandle>, Current)>> =
        const { RefCell::new(Vec::new()) };
}

impl Instance {
    /// Makes a system call that has only numbers as its arguments.
    fn set(&self, number: libc::c_long, a: [usize; 3]) -> io::Result<usize> {
        // SAFETY: the callers below pass no pointers, and none of the calls touches memory.
        unsafe { self.call(number, [a[0], a[1], a[2], 0, 0, 0]) }
    }

    /// Gives the thread a mask of its own, and capabilities that a change of user leaves.
    fn prepare_thread(&self) -> io::Result<Current> {
        self.set(libc::SYS_unshare, [libc::CLONE_FS as usize, 0, 0])?;
        let option = libc::PR_SET_SECUREBITS as usize;
        self.set(libc::SYS_prctl, [option, SECBIT_NO_SETUID_FIXUP, 0])?;
        self.set(libc::SYS_umask, [ROOT.umask as usize, 0, 0])?;
        Ok(ROOT)
    }

    fn set_group(&self, current: &mut Current, group: u32) -> io::Result<()> {
        if current.group != group {
            self.set(libc::SYS_setfsgid, [group as usize, 0, 0])?;
            current.group = group;
        }
        Ok(())
    }

    fn set_keeps_set_id(&self, keeps: bool) -> io::Result<()> {
        let mut header = CapabilityHeader {
            version: CAPABILITY_VERSION_3,
            pid: 0,
        };
        let mut sets = [CapabilitySet::default(); 2];
        let arguments = [pointer_mut(&mut header), pointer_mut(&mut sets), 0, 0, 0, 0];
        // SAFETY: version 3 has two sets; all outlives the call.
        unsafe { self.call(libc::SYS_capget, arguments) }?;
        let bit = 1 << CAP_FSETID;
        if keeps {
            sets[0].effective |= bit;
        } else {
            sets[0].effective &= !bit;
        }
        let arguments = [pointer(&header), pointer(&sets), 0, 0, 0, 0];
        // SAFETY: as above.
        unsafe { self.call(libc::SYS_capset, arguments) }.map(drop)
    }

    /// Takes out the credentials of this thread. Until the caller stores them again, the thread
    /// counts as not prepared: after an error it begins anew.
    fn take(&self) -> io::Result<Current> {
        let known = CURRENT.with_borrow_mut(|all| {
            let here = Arc::as_ptr(&self.handle);
            let index = all.iter().position(|(handle, _)| handle.as_ptr() == here)?;
            Some(all.swap_remove(index).1)
        });
        known.map_or_else(|| self.prepare_thread(), Ok)
    }

    fn store(&self, current: Current) {
        CURRENT.with_borrow_mut(|all| {
            if all.len() == all.capacity() {
                all.retain(|(handle, _)| handle.strong_count() > 0);
            }
            all.push((Arc::downgrade(&self.handle), current));
        });
    }

    /// From now on, files that this thread makes belong to this user and group and do not get the
    /// permissions of the mask, except where their directory has a default ACL.
    pub fn make_files_as(&self, user: u32, group: u32, umask: u32) -> io::Result<()> {
        self.keep_set_id(true)?;
        let mut current = self.take()?;
        if current.user != user {
            self.set(libc::SYS_setfsuid, [user as usize, 0, 0])?;
            current.user = user;
        }
        self.set_group(&mut current, group)?;
        if current.umask != umask {
            self.set(libc::SYS_umask, [umask as usize, 0, 0])?;
            current.umask = umask;
        }
        self.store(current);
        Ok(())
    }

    /// From now on, this thread changes data as a member of this group does. `privileged`:
    /// set-user-ID and set-group-ID bits stay.
    pub fn change_files_as(&self, group: u32, privileged: bool) -> io::Result<()> {
        self.keep_set_id(privileged)?;
        let mut current = self.take()?;
        self.set_group(&mut current, group)?;
        self.store(current);
        Ok(())
    }

    /// Whether changes that this thread makes to files from now on leave their set-user-ID and
    /// set-group-ID bits alone, as those of the privileged do.
    pub fn keep_set_id(&self, keep: bool) -> io::Result<()> {
        let mut current = self.take()?;
        if current.keeps_set_id != keep {
            self.set_keeps_set_id(keep)?;
            current.keeps_set_id = keep;
        }
        self.store(current);
        Ok(())
    }
}
