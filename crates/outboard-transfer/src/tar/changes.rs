// SPDX-License-Identifier: GPL-2.0-only
//! Metadata of members that their files do not have: other owners, another time.

use crate::owner::Owner;
use outboard::Tree;
use outboard_error::{Error, Hint, Result};
use outboard_volume::address::Place;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Changes to the metadata of all members.
#[derive(Default)]
pub struct MemberChanges {
    /// `None` in it: the owner of the file.
    pub owner: Owner,
    /// The modification time.
    pub modified: Option<libc::timespec>,
    /// Change only later times.
    pub clamps: bool,
}

impl MemberChanges {
    /// Applies the changes to the metadata of a file.
    pub fn apply(&self, stat: &mut libc::stat) {
        stat.st_uid = self.owner.user.unwrap_or(stat.st_uid);
        stat.st_gid = self.owner.group.unwrap_or(stat.st_gid);
        let Some(new) = &self.modified else { return };
        let now = (stat.st_mtime, stat.st_mtime_nsec);
        if !self.clamps || now > (new.tv_sec, new.tv_nsec) {
            (stat.st_mtime, stat.st_mtime_nsec) = (new.tv_sec, new.tv_nsec);
        }
    }
}

/// The owner of `--owner USER[:GROUP]` and `--group GROUP`, with names of the image that a place is
/// in.
pub fn find_owner(
    user: Option<&OsStr>,
    group: Option<&OsStr>,
    tree: &Tree,
    place: &Place,
) -> Result<Owner> {
    let refused = |hint: Hint| Err(Error::Usage(hint.to_string()));
    let mut owner = match user {
        Some(text) if text.is_empty() => return refused(Hint::EmptyOwner),
        Some(text) => Owner::find(text.as_bytes(), tree, place)?,
        None => Owner::default(),
    };
    let Some(group) = group else {
        return Ok(owner);
    };
    if group.is_empty() || group.as_bytes().contains(&b':') {
        return refused(Hint::OneGroup);
    }
    if owner.group.is_some() {
        return refused(Hint::TwoGroups);
    }
    let text = [b":", group.as_bytes()].concat();
    owner.group = Owner::find(&text, tree, place)?.group;
    Ok(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;

    fn time(clamps: bool, seconds: i64) -> i64 {
        let changes = MemberChanges {
            modified: Some(libc::timespec {
                tv_sec: 100,
                tv_nsec: 0,
            }),
            clamps,
            ..MemberChanges::default()
        };
        let tree = HostTree.as_tree();
        let mut stat = *tree.metadata("/").unwrap().stat();
        stat.st_mtime = seconds;
        stat.st_mtime_nsec = 5;
        changes.apply(&mut stat);
        stat.st_mtime
    }

    #[test]
    fn owners() {
        let (tree, place) = (HostTree.as_tree(), Place::Host("/".into()));
        let find = |user: Option<&str>, group: Option<&str>| {
            let found = find_owner(user.map(OsStr::new), group.map(OsStr::new), tree, &place);
            found.map(|owner| (owner.user, owner.group))
        };
        assert_eq!(find(Some("1"), Some("2")), Ok((Some(1), Some(2))));
        assert_eq!(find(Some("1:2"), None), Ok((Some(1), Some(2))));
        assert_eq!(find(Some(":2"), None), Ok((None, Some(2))));
        assert_eq!(find(None, Some("2")), Ok((None, Some(2))));
        for (user, group) in [
            (Some(""), None),
            (None, Some("")),
            (None, Some("1:2")),
            (Some("1:2"), Some("3")),
        ] {
            assert!(find(user, group).is_err(), "{user:?} {group:?}");
        }
    }

    #[test]
    fn times() {
        assert_eq!([time(false, 50), time(false, 500)], [100, 100]);
        assert_eq!([time(true, 50), time(true, 500)], [50, 100]);
    }
}
