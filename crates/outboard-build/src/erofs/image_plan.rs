// SPDX-License-Identifier: GPL-2.0-only
//! The places of the inodes of an image: the root first, and each directory before its entries.

use super::block_file::BLOCK;
use super::directory::{self, StoredEntry};
use super::inode::{SIZE, SLOT};
use super::tree::{Contents, FileTree, NodeNumber};
use super::xattr;
use std::io;

/// The place of the first inode: number 0 means none to some programs.
const FIRST: u64 = SIZE;

/// An inode and its place.
pub(super) struct PlannedInode {
    pub(super) node: NodeNumber,
    /// The node of the directory above.
    parent: NodeNumber,
    /// Bytes from the first block of inodes.
    pub(super) position: u64,
    /// Bytes of its contents.
    pub(super) size: u64,
    /// The contents follow the inode.
    pub(super) is_inline: bool,
    pub(super) links: u32,
    /// Counts the inodes from 1.
    pub(super) number: u32,
}

pub(super) struct ImagePlan {
    pub(super) inodes: Vec<PlannedInode>,
    /// Bytes of all inodes.
    pub(super) bytes: u64,
    /// The index in `inodes` of each node that is reached.
    of_node: Vec<Option<usize>>,
}

impl ImagePlan {
    pub(super) fn of(tree: &FileTree) -> io::Result<Self> {
        let mut plan = Self {
            inodes: Vec::new(),
            bytes: FIRST,
            of_node: vec![None; tree.len()],
        };
        let mut waiting = vec![(tree.root(), tree.root())];
        while let Some((node, parent)) = waiting.pop() {
            if let Some(known) = plan.of_node[node] {
                plan.inodes[known].links += 1;
                continue;
            }
            plan.add(tree, node, parent)?;
            if let Contents::Directory(entries) = &tree.node(node).contents {
                waiting.extend(entries.values().rev().map(|entry| (entry.node, node)));
            }
        }
        Ok(plan)
    }

    fn add(&mut self, tree: &FileTree, node: NodeNumber, parent: NodeNumber) -> io::Result<()> {
        let found = tree.node(node);
        let (size, links, may_be_inline) = match &found.contents {
            Contents::File { size, .. } => (*size, 1, false),
            Contents::Directory(_) => {
                let names = names_of(tree, node);
                let (_, size) = directory::blocks(names.into_iter());
                (size, 2 + tree.directories_in(node), true)
            }
            Contents::Symlink(target) => (target.len() as u64, 1, true),
            Contents::Special { .. } => (0, 1, false),
        };
        let head = SIZE + xattr::size(&found.attributes.xattrs) as u64;
        let is_inline = may_be_inline && head + size <= BLOCK;
        let length = if is_inline { head + size } else { head };
        let mut position = self.bytes.next_multiple_of(SLOT);
        // What follows an inode must not cross the end of a block.
        if position % BLOCK + length > BLOCK && length <= BLOCK {
            position = position.next_multiple_of(BLOCK);
        }
        let number = u32::try_from(self.inodes.len() + 1).map_err(io::Error::other)?;
        self.of_node[node] = Some(self.inodes.len());
        self.bytes = position + length;
        self.inodes.push(PlannedInode {
            node,
            parent,
            position,
            size,
            is_inline,
            links,
            number,
        });
        Ok(())
    }

    /// The number of the root's inode.
    pub(super) fn root_number(&self) -> u16 {
        (FIRST / SLOT) as u16
    }

    /// The number of a node's inode.
    fn number(&self, node: NodeNumber) -> u64 {
        let planned = self.of_node[node].map(|index| &self.inodes[index]);
        planned.map_or(0, |planned| planned.position / SLOT)
    }

    /// The bytes of a directory or symbolic link.
    pub(super) fn contents(&self, tree: &FileTree, planned: &PlannedInode) -> Vec<u8> {
        match &tree.node(planned.node).contents {
            Contents::Symlink(target) => target.clone(),
            Contents::Directory(entries) => {
                let names = names_of(tree, planned.node);
                let mut stored = Vec::with_capacity(names.len());
                for name in names {
                    let node = match name {
                        b"." => planned.node,
                        b".." => planned.parent,
                        name => entries[name].node,
                    };
                    stored.push(StoredEntry {
                        name,
                        number: self.number(node),
                        kind: tree.kind(node),
                    });
                }
                directory::bytes(&stored)
            }
            _ => Vec::new(),
        }
    }
}

/// The names of a directory in their order, with those of itself and the one above.
fn names_of(tree: &FileTree, node: NodeNumber) -> Vec<&[u8]> {
    let Contents::Directory(entries) = &tree.node(node).contents else {
        return Vec::new();
    };
    let mut names: Vec<&[u8]> = vec![b".", b".."];
    names.extend(entries.keys().map(Vec::as_slice));
    names.sort_unstable();
    names
}
