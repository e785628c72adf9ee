// SPDX-License-Identifier: GPL-2.0-only
//! The attributes of a member of an archive. [`crate::attributes`] has the order in which a file
//! gets them.

use crate::attributes::{self, AttributeTarget, WantedAttributes, Xattrs};
use crate::report::{Loss, Report};
use std::ffi::{CStr, CString};

/// Attributes of a member.
#[derive(Debug)]
pub struct MemberAttributes {
    /// Permissions, with the special bits.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// Access time and modification time.
    pub times: [libc::timespec; 2],
    pub xattrs: Vec<(CString, Vec<u8>)>,
    /// Attributes that make no sense, with the reasons.
    pub strange: Vec<(Loss, String)>,
}

impl MemberAttributes {
    /// Gives them to a file and reports those that were lost. `now`: the file's metadata; `path`:
    /// its name for messages.
    pub fn give(
        &self,
        report: &Report,
        target: &AttributeTarget,
        now: &libc::stat,
        path: &dyn Fn() -> String,
    ) {
        for (loss, why) in &self.strange {
            report.lose(*loss, || format!("{} ({why})", path()));
        }
        let wanted = WantedAttributes {
            user: self.user,
            group: self.group,
            mode: self.mode,
            times: self.times,
        };
        attributes::keep(report, target, &wanted, self, now, path);
    }

    /// Gives a file the extended attributes except access lists, and drops those here.
    pub fn give_xattrs(
        &mut self,
        report: &Report,
        target: &AttributeTarget,
        path: &dyn Fn() -> String,
    ) {
        attributes::keep_xattrs(report, target, self, path);
        let is_list = |(name, _): &(CString, Vec<u8>)| attributes::is_access_list(name);
        self.xattrs.retain(is_list);
    }
}

impl Xattrs for MemberAttributes {
    fn set(&self, target: &AttributeTarget, chosen: &dyn Fn(&CStr) -> bool, lost: &dyn Fn(&CStr)) {
        for (name, value) in self.xattrs.iter().filter(|(name, _)| chosen(name)) {
            if target.set_xattr(name, value).is_err() {
                lost(name);
            }
        }
    }
}
