// SPDX-License-Identifier: GPL-2.0-only
//! Maps users and groups of the image to those of the host, and back.

/// The owner of files without a mapping: the host shows 65534, and gives no user an owner's rights.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    image: u32,
    host: u32,
    count: u32,
}

/// Ranges of numbers in the image, and their first numbers on the host. No range: each number is
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    ranges: Vec<Range>,
}

impl IdMap {
    /// Adds "IMAGE:HOST:COUNT". `None`: bad syntax, or numbers beyond 32 bits.
    pub fn add(&mut self, text: &str) -> Option<()> {
        let numbers: Vec<u32> = text
            .split(':')
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let [image, host, count] = numbers[..] else {
            return None;
        };
        // The largest number, 2^32 - 1, means "none" in Linux.
        image.checked_add(count)?;
        host.checked_add(count)?;
        self.ranges.push(Range { image, host, count });
        Some(())
    }

    /// The ranges as text, each after its prefix.
    pub fn to_words(&self, kind: &str) -> String {
        let words: Vec<String> = self
            .ranges
            .iter()
            .map(|range| format!("{kind}:{}:{}:{}", range.image, range.host, range.count))
            .collect();
        words.join(" ")
    }

    /// Whether no number changes.
    pub fn is_identity(&self) -> bool {
        self.ranges.is_empty()
    }

    fn find(&self, id: u32, from: fn(&Range) -> u32, to: fn(&Range) -> u32) -> Option<u32> {
        if self.is_identity() {
            return Some(id);
        }
        self.ranges.iter().find_map(|range| {
            let offset = id.checked_sub(from(range))?;
            (offset < range.count).then(|| to(range) + offset)
        })
    }

    /// The number on the host. `None`: no mapping.
    pub fn to_host(&self, id: u32) -> Option<u32> {
        self.find(id, |range| range.image, |range| range.host)
    }

    /// The number in the image. `None`: no mapping.
    pub fn to_image(&self, id: u32) -> Option<u32> {
        self.find(id, |range| range.host, |range| range.image)
    }
}

/// Owners of files.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Numbers of users.
    pub users: IdMap,
    /// Numbers of groups.
    pub groups: IdMap,
    /// Owner of new files in the image; `None`: the calling user.
    pub user: Option<u32>,
    /// Group of new files in the image; `None`: the calling user's.
    pub group: Option<u32>,
}

impl Owners {
    /// The owner on the host for this owner in the image.
    pub fn shown_user(&self, id: u32) -> u32 {
        self.users.to_host(id).unwrap_or(NOBODY)
    }

    /// The group on the host for this group in the image.
    pub fn shown_group(&self, id: u32) -> u32 {
        self.groups.to_host(id).unwrap_or(NOBODY)
    }

    /// The user and group in the image of a file that a user of the host creates. `None`: no
    /// mapping.
    pub fn of_new(&self, user: u32, group: u32) -> Option<(u32, u32)> {
        let user = self.user.or_else(|| self.users.to_image(user))?;
        let group = self.group.or_else(|| self.groups.to_image(group))?;
        Some((user, group))
    }

    /// ACLs contain numbers, which are not mapped.
    pub fn have_access_lists(&self) -> bool {
        self.users.is_identity() && self.groups.is_identity()
    }
}
