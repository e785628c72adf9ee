// SPDX-License-Identifier: GPL-2.0-only
//! A tree of files in memory, whose contents are in an image already.

use super::xattr::StoredXattrs;
use std::collections::BTreeMap;

/// The number of a node in its tree.
pub(crate) type NodeNumber = usize;

/// What all kinds of files have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    /// Permissions, with the special bits.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The time of the last change.
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
    pub(crate) xattrs: StoredXattrs,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeEntry {
    pub(crate) node: NodeNumber,
    /// The layer that has changed it, or something below it, last.
    pub(crate) layer: u32,
}

#[derive(Debug)]
pub(crate) enum Contents {
    /// Bytes in the image from a block on.
    File {
        block: u32,
        size: u64,
    },
    Directory(BTreeMap<Vec<u8>, TreeEntry>),
    Symlink(Vec<u8>),
    /// A device, FIFO or socket: its `S_IF*` and number.
    Special {
        kind: u32,
        device: u64,
    },
}

#[derive(Debug)]
pub(crate) struct TreeNode {
    pub(crate) attributes: Attributes,
    pub(crate) contents: Contents,
}

/// A tree. Nodes that no name refers to any more stay in it.
pub(crate) struct FileTree {
    nodes: Vec<TreeNode>,
}

impl FileTree {
    /// A tree with an empty root.
    pub(crate) fn new() -> Self {
        let root = TreeNode {
            attributes: Attributes {
                mode: 0o755,
                ..Attributes::default()
            },
            contents: Contents::Directory(BTreeMap::new()),
        };
        Self { nodes: vec![root] }
    }

    pub(crate) fn root(&self) -> NodeNumber {
        0
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, number: NodeNumber) -> &TreeNode {
        &self.nodes[number]
    }

    pub(crate) fn node_mut(&mut self, number: NodeNumber) -> &mut TreeNode {
        &mut self.nodes[number]
    }

    /// Adds a node that has no name yet.
    pub(crate) fn add(&mut self, attributes: Attributes, contents: Contents) -> NodeNumber {
        self.nodes.push(TreeNode {
            attributes,
            contents,
        });
        self.nodes.len() - 1
    }

    /// The names of a directory; `None`: it is none.
    pub(crate) fn entries(&self, number: NodeNumber) -> Option<&BTreeMap<Vec<u8>, TreeEntry>> {
        match &self.nodes[number].contents {
            Contents::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn entries_mut(
        &mut self,
        number: NodeNumber,
    ) -> Option<&mut BTreeMap<Vec<u8>, TreeEntry>> {
        match &mut self.nodes[number].contents {
            Contents::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// The kind of a node, an `S_IF*`.
    pub(crate) fn kind(&self, number: NodeNumber) -> u32 {
        match &self.nodes[number].contents {
            Contents::File { .. } => libc::S_IFREG,
            Contents::Directory(_) => libc::S_IFDIR,
            Contents::Symlink(_) => libc::S_IFLNK,
            Contents::Special { kind, .. } => *kind,
        }
    }

    /// How many directories are in a directory.
    pub(crate) fn directories_in(&self, number: NodeNumber) -> u32 {
        let entries = self.entries(number).into_iter().flatten();
        let directories = entries.filter(|(_, entry)| self.entries(entry.node).is_some());
        directories.count() as u32
    }
}
