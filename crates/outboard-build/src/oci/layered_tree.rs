// SPDX-License-Identifier: GPL-2.0-only
//! Merges the layers of an image into one tree, as if each were unpacked over the ones below it.
//!
//! | a member | does |
//! |---|---|
//! | `DIR/.wh.NAME` | removes `NAME`, and all below it, as far as lower layers have it |
//! | `DIR/.wh..wh..opq` | removes all in `DIR` that lower layers have |
//! | `.wh..wh.NAME` | nothing: other programs keep notes there |
//! | a directory where one is | gives that one its attributes |
//! | another one | takes the place of what has its name |
//!
//! Nothing leaves the tree: symbolic links on the way to a member are followed as if the image were
//! the root, and `..` in the name of a member is an error.

use crate::erofs::{
    fit, is_known, Attributes, BlockFile, Contents, FileTree, NodeNumber, TreeEntry,
};
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Failure};
use outboard_transfer::tar::visit::{MemberData, VisitEnd};
use outboard_transfer::tar::{clean, Member, MemberAttributes, MemberKind};
use std::collections::{BTreeMap, VecDeque};

const WHITEOUT: &[u8] = b".wh.";
/// Behind [`WHITEOUT`]: all of the directory.
const OPAQUE: &[u8] = b".wh..opq";
/// Symbolic links that one path may lead through, as in Linux.
const MOST_LINKS: usize = 40;
/// Bytes of a path and of a name, as in Linux.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// The permissions of symbolic links in Linux, whatever an archive says.
const LINK_MODE: u32 = 0o777;
/// Most files, and most bytes of their names and attributes: they are in memory.
const MOST_FILES: usize = 2_000_000;
const MOST_BYTES: usize = 512 << 20;

/// The reason why a member cannot be used.
type Reasoned<T> = std::result::Result<T, String>;

/// The layers that were merged so far.
pub(super) struct LayeredTree {
    tree: FileTree,
    /// Counts the layers from 1.
    layer: u32,
    /// Bytes of names and attributes.
    bytes: usize,
    /// Attributes that the image cannot keep.
    lost: usize,
}

impl LayeredTree {
    pub(super) fn new() -> Self {
        Self {
            tree: FileTree::new(),
            layer: 0,
            bytes: 0,
            lost: 0,
        }
    }

    /// The next members are of the next layer.
    pub(super) fn begin_layer(&mut self) {
        self.layer += 1;
    }

    /// The tree, and the number of attributes that were left out.
    pub(super) fn finish(self) -> (FileTree, usize) {
        (self.tree, self.lost)
    }

    /// Adds a member of the layer `shown`, whose bytes go into `file`.
    pub(super) fn add(
        &mut self,
        shown: &str,
        member: &Member,
        data: &mut MemberData,
        file: &mut BlockFile,
    ) -> std::result::Result<(), VisitEnd> {
        let refused = |why: String| {
            let path = escaped(&member.path);
            let text = format!("{shown}: {path}: {why}");
            VisitEnd::Caller(Error::known(ErrorKind::Damaged, text))
        };
        let path = clean(&member.path).ok_or_else(|| "its name has \"..\" or a NUL in it".into());
        let path = path.map_err(refused)?;
        self.count(path.len() + 64).map_err(refused)?;
        if path.is_empty() {
            return self.root(member).map_err(refused);
        }
        let (parent, name) = split(&path);
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            return self.hide(parent, hidden).map_err(refused);
        }
        if path.len() > LONGEST_PATH || name.len() > LONGEST_NAME {
            return Err(refused("its name is longer than Linux allows".to_owned()));
        }
        let directory = self.directory(parent).map_err(refused)?;
        let node = match &member.kind {
            MemberKind::Link(target) => self.linked(target).map_err(refused)?,
            MemberKind::Directory => self
                .made_directory(directory, name, member)
                .map_err(refused)?,
            _ => {
                let mut attributes = self.attributes(&member.attributes).map_err(refused)?;
                if matches!(member.kind, MemberKind::Symlink(_)) {
                    attributes.mode = LINK_MODE;
                }
                let contents = self.contents(&member.kind).map_err(refused)?;
                self.tree.add(attributes, contents)
            }
        };
        if matches!(member.kind, MemberKind::File) || data.rest() > 0 {
            self.store(node, member, data, file)
                .map_err(|end| match end {
                    StoreEnd::Visit(end) => end,
                    StoreEnd::Refused(why) => refused(why),
                })?;
        }
        self.put(directory, name, node);
        Ok(())
    }

    /// Counts bytes of memory, and the file that has them.
    fn count(&mut self, bytes: usize) -> Reasoned<()> {
        self.bytes += bytes;
        if self.tree.len() > MOST_FILES || self.bytes > MOST_BYTES {
            return Err(format!(
                "the image has more than {MOST_FILES} files, or more names and attributes than \
                 are unpacked here"
            ));
        }
        Ok(())
    }

    fn root(&mut self, member: &Member) -> Reasoned<()> {
        if !matches!(member.kind, MemberKind::Directory) {
            return Err("the root is no directory".to_owned());
        }
        let attributes = self.attributes(&member.attributes)?;
        self.tree.node_mut(self.tree.root()).attributes = attributes;
        Ok(())
    }

    /// Gives a directory a name, which leads to this node from now on.
    fn put(&mut self, directory: NodeNumber, name: &[u8], node: NodeNumber) {
        let layer = self.layer;
        if let Some(entries) = self.tree.entries_mut(directory) {
            entries.insert(name.to_vec(), TreeEntry { node, layer });
        }
    }

    fn lookup(&self, directory: NodeNumber, name: &[u8]) -> Option<TreeEntry> {
        self.tree.entries(directory)?.get(name).copied()
    }

    /// The directory at a clean path. Missing ones are made, and all on the way count as changed by
    /// this layer.
    fn directory(&mut self, path: &[u8]) -> Reasoned<NodeNumber> {
        let found = self.walk(path, true)?;
        found.ok_or_else(|| "its directory cannot be made".to_owned())
    }

    /// `None`: there is no directory, and none was to be made.
    fn walk(&mut self, path: &[u8], makes: bool) -> Reasoned<Option<NodeNumber>> {
        let mut names: VecDeque<Vec<u8>> = parts(path).collect();
        let mut trail = vec![self.tree.root()];
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            let here = *trail.last().unwrap_or(&self.tree.root());
            if name == b".." {
                trail.truncate(trail.len().saturating_sub(1).max(1));
                continue;
            }
            let Some(entry) = self.lookup(here, &name) else {
                if !makes {
                    return Ok(None);
                }
                self.count(name.len() + 64)?;
                let node = self
                    .tree
                    .add(implied(), Contents::Directory(BTreeMap::new()));
                self.put(here, &name, node);
                trail.push(node);
                continue;
            };
            match &self.tree.node(entry.node).contents {
                Contents::Directory(_) => {
                    if makes {
                        self.put(here, &name, entry.node);
                    }
                    trail.push(entry.node);
                }
                Contents::Symlink(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err("it leads through too many symbolic links".to_owned());
                    }
                    if target.starts_with(b"/") {
                        trail.truncate(1);
                    }
                    for part in parts(target).collect::<Vec<_>>().into_iter().rev() {
                        names.push_front(part);
                    }
                }
                _ if makes => {
                    let name = escaped(&name);
                    return Err(format!("{name}, on the way to it, is no directory"));
                }
                _ => return Ok(None),
            }
        }
        Ok(trail.last().copied())
    }

    /// Hides what lower layers have of a name, or all of them in the directory.
    fn hide(&mut self, parent: &[u8], hidden: &[u8]) -> Reasoned<()> {
        if matches!(hidden, b"" | b"." | b"..") {
            return Err("it would hide its own directory".to_owned());
        }
        let Some(directory) = self.walk(parent, false)? else {
            return Ok(());
        };
        if hidden == OPAQUE {
            self.remove_lower(directory);
        } else if !hidden.starts_with(WHITEOUT) {
            match self.lookup(directory, hidden) {
                Some(entry) if entry.layer == self.layer => self.remove_lower(entry.node),
                Some(_) => {
                    let entries = self.tree.entries_mut(directory);
                    entries.and_then(|entries| entries.remove(hidden));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Removes all below a directory that this layer does not have.
    fn remove_lower(&mut self, directory: NodeNumber) {
        let layer = self.layer;
        let mut waiting = vec![directory];
        while let Some(node) = waiting.pop() {
            if let Some(entries) = self.tree.entries_mut(node) {
                entries.retain(|_, entry| entry.layer == layer);
                waiting.extend(entries.values().map(|entry| entry.node));
            }
        }
    }

    /// A directory that is there gets the attributes of the member.
    fn made_directory(
        &mut self,
        directory: NodeNumber,
        name: &[u8],
        member: &Member,
    ) -> Reasoned<NodeNumber> {
        let attributes = self.attributes(&member.attributes)?;
        let known = self.lookup(directory, name).map(|entry| entry.node);
        match known.filter(|&node| self.tree.entries(node).is_some()) {
            Some(node) => {
                self.tree.node_mut(node).attributes = attributes;
                Ok(node)
            }
            None => Ok(self
                .tree
                .add(attributes, Contents::Directory(BTreeMap::new()))),
        }
    }

    /// The file that a hard link leads to.
    fn linked(&mut self, target: &[u8]) -> Reasoned<NodeNumber> {
        let shown = escaped(target);
        let missing = || format!("it is a hard link to {shown}, which is not there");
        let path = clean(target).filter(|path| !path.is_empty());
        let path = path.ok_or_else(missing)?;
        let (parent, name) = split(&path);
        let directory = self.walk(parent, false)?.ok_or_else(missing)?;
        let entry = self.lookup(directory, name).ok_or_else(missing)?;
        if self.tree.entries(entry.node).is_some() {
            return Err(format!(
                "it is a hard link to {shown}, which is a directory"
            ));
        }
        Ok(entry.node)
    }

    fn contents(&mut self, kind: &MemberKind) -> Reasoned<Contents> {
        match kind {
            MemberKind::Symlink(target) => {
                let target = target.as_bytes().to_vec();
                if target.is_empty() || target.len() > LONGEST_PATH {
                    return Err("its target is empty, or longer than Linux allows".to_owned());
                }
                self.count(target.len())?;
                Ok(Contents::Symlink(target))
            }
            MemberKind::Node(kind, device) => Ok(Contents::Special {
                kind: *kind,
                device: *device,
            }),
            _ => Ok(Contents::File { block: 0, size: 0 }),
        }
    }

    fn attributes(&mut self, given: &MemberAttributes) -> Reasoned<Attributes> {
        let known = given.xattrs.iter().filter(|(name, _)| is_known(name));
        let xattrs: Vec<_> = known.cloned().collect();
        self.lost += given.xattrs.len() - xattrs.len() + given.strange.len();
        if !fit(&xattrs) {
            return Err("its extended attributes are too large".to_owned());
        }
        let bytes = |(name, value): &(std::ffi::CString, Vec<u8>)| name.count_bytes() + value.len();
        self.count(xattrs.iter().map(bytes).sum())?;
        let modified = given.times[1];
        Ok(Attributes {
            mode: given.mode,
            user: given.user,
            group: given.group,
            seconds: modified.tv_sec,
            nanoseconds: modified.tv_nsec as u32,
            xattrs,
        })
    }

    /// Writes the bytes of a member at their offsets.
    fn store(
        &mut self,
        node: NodeNumber,
        member: &Member,
        data: &mut MemberData,
        file: &mut BlockFile,
    ) -> std::result::Result<(), StoreEnd> {
        let size = member.map.size;
        let Contents::File { .. } = self.tree.node(node).contents else {
            return Err(StoreEnd::Refused("it has bytes, but is no file".to_owned()));
        };
        let block = file.reserve(size).map_err(StoreEnd::of_host)?;
        let mut parts = member.map.parts.iter().copied();
        let (mut offset, mut left) = (0, 0);
        while let Some(piece) = data.piece()? {
            let mut bytes: &[u8] = &piece;
            while !bytes.is_empty() {
                if left == 0 {
                    match parts.next() {
                        Some(part) => (offset, left) = part,
                        None => break,
                    }
                }
                let length = left.min(bytes.len() as u64);
                let (now, rest) = bytes.split_at(length as usize);
                file.write_at(block, offset, now)
                    .map_err(StoreEnd::of_host)?;
                bytes = rest;
                (offset, left) = (offset + length, left - length);
            }
        }
        self.tree.node_mut(node).contents = Contents::File { block, size };
        Ok(())
    }
}

/// Why the bytes of a member were not stored.
enum StoreEnd {
    Visit(VisitEnd),
    Refused(String),
}

impl StoreEnd {
    fn of_host(error: std::io::Error) -> Self {
        let is_ours = error.get_ref().is_some_and(|inner| inner.is::<Failure>());
        let failure = Failure::of(&error);
        if is_ours {
            Self::Refused(failure.message().to_owned())
        } else {
            let what = "cannot write to the cache of images";
            Self::Visit(VisitEnd::Caller(failure.after(what).into()))
        }
    }
}

impl From<VisitEnd> for StoreEnd {
    fn from(end: VisitEnd) -> Self {
        Self::Visit(end)
    }
}

/// The attributes of a directory that no member describes.
fn implied() -> Attributes {
    Attributes {
        mode: 0o755,
        ..Attributes::default()
    }
}

/// The directory part and the last name of a clean path.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    }
}

/// The names of a path, without those that lead nowhere.
fn parts(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let names = path.split(|&byte| byte == b'/');
    names
        .filter(|name| !matches!(*name, b"" | b"."))
        .map(<[u8]>::to_vec)
}
