// SPDX-License-Identifier: GPL-2.0-only
//! Writes what follows the contents of files: large directories and links, inodes, the superblock.

use super::block_file::BlockFile;
use super::image_plan::{ImagePlan, PlannedInode};
use super::inode::{self, Inode, Layout};
use super::tree::{Contents, FileTree};
use super::xattr;
use std::io::{self, Write};

const SUPERBLOCK: u64 = 1024;
const MAGIC: u32 = 0xe0f5_e1e2;
/// The binary logarithm of a block's bytes.
const BLOCK_BITS: u8 = 12;

/// Writes the tree behind the contents of its files, which are in `file`, and the superblock.
/// Returns the number of bytes of the image.
pub(crate) fn write(tree: &FileTree, file: &mut BlockFile) -> io::Result<u64> {
    let plan = ImagePlan::of(tree)?;
    let mut places = Vec::with_capacity(plan.inodes.len());
    for planned in &plan.inodes {
        places.push(place_contents(tree, &plan, planned, file)?);
    }
    let start = file.reserve(plan.bytes)?;
    let mut inodes = InodeWriter::new(file.writer(start));
    for (planned, place) in plan.inodes.iter().zip(places) {
        inodes.put(&inode_of(tree, planned, place), tree, &plan, planned)?;
    }
    inodes.finish()?;
    let superblock = superblock(&plan, start, file.blocks());
    file.write_at(0, SUPERBLOCK, &superblock)?;
    file.finish()
}

/// Where the contents of a node are, in blocks of the image.
fn place_contents(
    tree: &FileTree,
    plan: &ImagePlan,
    planned: &PlannedInode,
    file: &mut BlockFile,
) -> io::Result<u32> {
    if let Contents::File { block, .. } = tree.node(planned.node).contents {
        return Ok(block);
    }
    if planned.is_inline || planned.size == 0 {
        return Ok(0);
    }
    let block = file.reserve(planned.size)?;
    file.write_at(block, 0, &plan.contents(tree, planned))?;
    Ok(block)
}

fn inode_of<'a>(tree: &'a FileTree, planned: &PlannedInode, block: u32) -> Inode<'a> {
    let node = tree.node(planned.node);
    let (kind, value) = match &node.contents {
        Contents::File { .. } => (libc::S_IFREG, block),
        Contents::Directory(_) => (libc::S_IFDIR, block),
        Contents::Symlink(_) => (libc::S_IFLNK, block),
        Contents::Special { kind, device } => (*kind, inode::device_number(*device)),
    };
    Inode {
        attributes: &node.attributes,
        kind,
        size: planned.size,
        value,
        links: planned.links,
        number: planned.number,
        layout: if planned.is_inline {
            Layout::Inline
        } else {
            Layout::Plain
        },
    }
}

/// Writes inodes one after the other.
struct InodeWriter<W: Write> {
    output: W,
    position: u64,
}

impl<W: Write> InodeWriter<W> {
    fn new(output: W) -> Self {
        Self {
            output,
            position: 0,
        }
    }

    fn put(
        &mut self,
        inode: &Inode,
        tree: &FileTree,
        plan: &ImagePlan,
        planned: &PlannedInode,
    ) -> io::Result<()> {
        self.fill(planned.position)?;
        let mut bytes = inode.bytes();
        bytes.extend(xattr::bytes(&inode.attributes.xattrs));
        if planned.is_inline {
            bytes.extend(plan.contents(tree, planned));
        }
        self.position += bytes.len() as u64;
        self.output.write_all(&bytes)
    }

    /// Writes zeros up to a position.
    fn fill(&mut self, position: u64) -> io::Result<()> {
        let gap = position - self.position;
        self.position = position;
        self.output.write_all(&vec![0; gap as usize])
    }

    fn finish(mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// `start`: the first block of inodes; `blocks`: of the image.
fn superblock(plan: &ImagePlan, start: u32, blocks: u32) -> [u8; 128] {
    let mut bytes = [0; 128];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &MAGIC.to_le_bytes());
    put(12, &[BLOCK_BITS]);
    put(14, &plan.root_number().to_le_bytes());
    put(16, &(plan.inodes.len() as u64).to_le_bytes());
    put(36, &blocks.to_le_bytes());
    put(40, &start.to_le_bytes());
    bytes
}
