// SPDX-License-Identifier: GPL-2.0-only
//! Users and groups of the image as those of the host, and back.

/// What has no mapping is no user's and no group's: the host shows 65534, and gives nobody an owner's rights.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    image: u32,
    host: u32,
    count: u32,
}

/// Ranges of numbers in the image, and where they are on the host. None at all: each is itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    ranges: Vec<Range>,
}

impl IdMap {
    /// Adds "IMAGE:HOST:COUNT". `None`: it is not that, or does not fit into 32 bits.
    pub fn add(&mut self, text: &str) -> Option<()> {
        let numbers: Vec<u32> = text
            .split(':')
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let [image, host, count] = numbers[..] else {
            return None;
        };
        // The last number, 2^32 - 1, means "none" everywhere.
        image.checked_add(count)?;
        host.checked_add(count)?;
        self.ranges.push(Range { image, host, count });
        Some(())
    }

    /// The ranges, each with what it is for before it.
    pub fn to_words(&self, kind: &str) -> String {
        let words: Vec<String> = self
            .ranges
            .iter()
            .map(|range| format!("{kind}:{}:{}:{}", range.image, range.host, range.count))
            .collect();
        words.join(" ")
    }

    /// Whether all numbers stay as they are.
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

    /// The number on the host. `None`: it has none there.
    pub fn to_host(&self, id: u32) -> Option<u32> {
        self.find(id, |range| range.image, |range| range.host)
    }

    /// The number in the image. `None`: it has none there.
    pub fn to_image(&self, id: u32) -> Option<u32> {
        self.find(id, |range| range.host, |range| range.image)
    }
}

/// Whose files are.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    pub users: IdMap,
    pub groups: IdMap,
    /// Who new files belong to in the image, if not to who makes them.
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl Owners {
    /// The owner that the host sees for this owner in the image.
    pub fn shown_user(&self, id: u32) -> u32 {
        self.users.to_host(id).unwrap_or(NOBODY)
    }

    /// The group that the host sees for this group in the image.
    pub fn shown_group(&self, id: u32) -> u32 {
        self.groups.to_host(id).unwrap_or(NOBODY)
    }

    /// The user and group in the image of what a user of the host makes. `None`: it has none there.
    pub fn of_new(&self, user: u32, group: u32) -> Option<(u32, u32)> {
        let user = self.user.or_else(|| self.users.to_image(user))?;
        let group = self.group.or_else(|| self.groups.to_image(group))?;
        Some((user, group))
    }

    /// ACLs have numbers in them, which are not mapped.
    pub fn have_access_lists(&self) -> bool {
        self.users.is_identity() && self.groups.is_identity()
    }
}
