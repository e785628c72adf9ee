// SPDX-License-Identifier: GPL-2.0-only
//! POSIX access control lists, in the format of the extended attributes `system.posix_acl_access`
//! and `_default`: a version, then entries of tag, permissions and ID, in little-endian order.

use std::ffi::CStr;

/// The attribute that holds the list for access.
pub const ACCESS: &CStr = c"system.posix_acl_access";
/// The attribute that holds the list for new files in a directory.
pub const DEFAULT: &CStr = c"system.posix_acl_default";

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

/// The tag of an entry. Lists are sorted in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

impl Who {
    fn decode(tag: u16, id: u32) -> Option<Self> {
        Some(match tag {
            0x01 => Who::Owner,
            0x02 if id != NO_ID => Who::User(id),
            0x04 => Who::OwningGroup,
            0x08 if id != NO_ID => Who::Group(id),
            0x10 => Who::Mask,
            0x20 => Who::Other,
            _ => return None,
        })
    }

    fn encode(self) -> (u16, u32) {
        match self {
            Who::Owner => (0x01, NO_ID),
            Who::User(id) => (0x02, id),
            Who::OwningGroup => (0x04, NO_ID),
            Who::Group(id) => (0x08, id),
            Who::Mask => (0x10, NO_ID),
            Who::Other => (0x20, NO_ID),
        }
    }

    /// Whether the mask limits what the entry grants.
    pub fn is_masked(self) -> bool {
        matches!(self, Who::User(_) | Who::OwningGroup | Who::Group(_))
    }
}

/// Permissions: 4 read, 2 write, 1 execute.
pub type Permissions = u8;

/// "rw-".
pub fn shown(permissions: Permissions) -> String {
    let letter = |bit, letter| if permissions & bit != 0 { letter } else { '-' };
    [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')]
        .iter()
        .collect()
}

/// A list, sorted by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<(Who, Permissions)>,
}

impl Acl {
    /// The list that is equivalent to the permissions of a mode.
    pub fn of_mode(mode: u32) -> Self {
        let bits = |shift: u32| (mode >> shift & 7) as Permissions;
        Self {
            entries: vec![
                (Who::Owner, bits(6)),
                (Who::OwningGroup, bits(3)),
                (Who::Other, bits(0)),
            ],
        }
    }

    /// Parses an attribute's value. `None`: Linux would refuse this list.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || rest.len() % 8 != 0 {
            return None;
        }
        let mut list = Self::default();
        for entry in rest.chunks_exact(8) {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let permissions = u16::from_le_bytes([entry[2], entry[3]]);
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            let who = Who::decode(tag, id)?;
            if permissions > 7 || list.get(who).is_some() {
                return None;
            }
            list.set(who, permissions as Permissions);
        }
        list.problem().is_none().then_some(list)
    }

    /// The bytes of the attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (who, permissions) in &self.entries {
            let (tag, id) = who.encode();
            value.extend(tag.to_le_bytes());
            value.extend(u16::from(*permissions).to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in their order.
    pub fn entries(&self) -> &[(Who, Permissions)] {
        &self.entries
    }

    fn position(&self, who: Who) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&who, |entry| entry.0)
    }

    /// The permissions of an entry, if there is one.
    pub fn get(&self, who: Who) -> Option<Permissions> {
        self.position(who).ok().map(|index| self.entries[index].1)
    }

    /// Sets the permissions of an entry, which is added if there is none.
    pub fn set(&mut self, who: Who, permissions: Permissions) {
        match self.position(who) {
            Ok(index) => self.entries[index].1 = permissions,
            Err(index) => self.entries.insert(index, (who, permissions)),
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, who: Who) {
        if let Ok(index) = self.position(who) {
            self.entries.remove(index);
        }
    }

    /// Whether the list has more entries than a mode can express.
    pub fn is_extended(&self) -> bool {
        let plain = |who| matches!(who, Who::Owner | Who::OwningGroup | Who::Other);
        self.entries.iter().any(|&(who, _)| !plain(who))
    }

    /// The permissions that an entry grants under the mask.
    pub fn effective(&self, who: Who, permissions: Permissions) -> Permissions {
        match self.get(Who::Mask) {
            Some(mask) if who.is_masked() => permissions & mask,
            _ => permissions,
        }
    }

    /// Removes all entries that a mode cannot express. The owning group keeps the permissions that
    /// it had under the mask.
    pub fn remove_extended(&mut self) {
        if let Some(permissions) = self.get(Who::OwningGroup) {
            let effective = self.effective(Who::OwningGroup, permissions);
            self.set(Who::OwningGroup, effective);
        }
        self.entries
            .retain(|(who, _)| matches!(who, Who::Owner | Who::OwningGroup | Who::Other));
    }

    /// Sets the mask to the union of the permissions that it limits.
    pub fn calculate_mask(&mut self) {
        let masked = self.entries.iter().filter(|(who, _)| who.is_masked());
        let mask = masked.fold(0, |mask, (_, permissions)| mask | permissions);
        self.set(Who::Mask, mask);
    }

    /// The reason why Linux would refuse the list.
    pub fn problem(&self) -> Option<&'static str> {
        let has = |who| self.get(who).is_some();
        let named = |who: &Who| matches!(who, Who::User(_) | Who::Group(_));
        if !has(Who::Owner) || !has(Who::OwningGroup) || !has(Who::Other) {
            return Some("an entry for the owner, the owning group or others is missing");
        }
        if self.entries.iter().any(|(who, _)| named(who)) && !has(Who::Mask) {
            return Some("the mask is missing");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    const GOOD: [(u16, u16, u32); 5] = [
        (1, 7, NO_ID),
        (2, 5, 1000),
        (4, 4, NO_ID),
        (0x10, 4, NO_ID),
        (0x20, 0, NO_ID),
    ];

    #[test]
    fn there_and_back() {
        let list = Acl::decode(&value(&GOOD)).unwrap();
        assert_eq!(list.get(Who::User(1000)), Some(5));
        assert_eq!(list.effective(Who::User(1000), 5), 4);
        assert!(list.is_extended());
        assert_eq!(list.encode(), value(&GOOD));
    }

    #[test]
    fn what_is_no_list() {
        let good = value(&GOOD);
        for length in 0..good.len() {
            assert_eq!(Acl::decode(&good[..length]), None, "{length}");
        }
        assert_eq!(Acl::decode(&[good.as_slice(), &[0]].concat()), None);
        for (index, entry) in [
            (0, (3, 7, NO_ID)),
            (0, (1, 8, NO_ID)),
            (1, (1, 7, NO_ID)),
            // Found by fuzz/: an archive cannot name this user.
            (1, (2, 5, NO_ID)),
            (1, (8, 5, NO_ID)),
            (3, (2, 4, 5)),
        ] {
            let mut entries = GOOD;
            entries[index] = entry;
            assert_eq!(Acl::decode(&value(&entries)), None, "{entry:?}");
        }
        assert_eq!(Acl::decode(&[0xff; 4]), None);
    }

    #[test]
    fn masks() {
        let mut list = Acl::of_mode(0o750);
        assert!(!list.is_extended());
        list.set(Who::User(5), 2);
        assert_eq!(list.problem(), Some("the mask is missing"));
        list.calculate_mask();
        assert_eq!(list.get(Who::Mask), Some(7));
        list.set(Who::Mask, 4);
        list.remove_extended();
        assert_eq!(list, Acl::of_mode(0o740));
    }
}
