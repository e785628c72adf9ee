// SPDX-License-Identifier: GPL-2.0-only
//! Extended attributes that repeat other metadata of a file: copies, comparisons and archives leave
//! them out.

use std::ffi::{CStr, CString};

/// Access control lists as xfs stores them.
const STORED_LISTS: &[u8] = b"trusted.SGI_ACL_";
/// Access control lists as Linux shows them.
const LISTS: &[u8] = b"system.posix_acl_";
/// Owner, group, mode and device as NTFS stores them for WSL.
const STORED_METADATA: [&CStr; 4] = [c"$LXUID", c"$LXGID", c"$LXMOD", c"$LXDEV"];

/// Removes them from the names of a file's attributes.
pub fn leave_out(names: &mut Vec<CString>) {
    let has_lists = names.iter().any(|name| name.to_bytes().starts_with(LISTS));
    names.retain(|name| {
        let stored_list = has_lists && name.to_bytes().starts_with(STORED_LISTS);
        !stored_list && !STORED_METADATA.contains(&name.as_c_str())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(names: &[&CStr]) -> Vec<CString> {
        let mut names = names.iter().map(|&name| name.to_owned()).collect();
        leave_out(&mut names);
        names
    }

    #[test]
    fn other_forms_are_left_out() {
        let list = c"system.posix_acl_access";
        let stored = c"trusted.SGI_ACL_FILE";
        assert_eq!(left(&[list, stored, c"user.a"]), [list, c"user.a"]);
        assert_eq!(left(&[stored, c"user.a"]), [stored, c"user.a"]);
        assert_eq!(
            left(&[c"$LXUID", c"$LXMOD", c"user.$LXUID"]),
            [c"user.$LXUID"]
        );
    }
}
