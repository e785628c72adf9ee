// SPDX-License-Identifier: GPL-2.0-only
//! Devices whose blocks dm-verity checks, if the user gives the root hash.
//!
//! The hashes lie in another partition or disk, or behind the file system in the same one. Their
//! superblock and their top block, which must match the root hash, identify them. The hash of the
//! first data block identifies the data. This only finds the devices: the kernel checks every block
//! that is read.

use super::hashes::{self, HashFunction};
use super::{Attempt, Context, Selector, Stack};
use crate::options::RootHash;
use outboard::{BlockDevice, DeviceSource, Target};
use outboard_error::{reason, Error, ErrorKind, Hint, Result};
use outboard_image::verity::VeritySuperblock;
use outboard_image::Source;

const HASHES: &str = "DM_verity_hash";
pub const VERIFIED: &str = "verified";
const SECTOR: u64 = 512;
/// Alignments of hash trees behind a file system.
const ALIGNMENTS: [u64; 3] = [4096, 65536, 1 << 20];

/// A hash area that matches the root hash.
struct Hashes {
    superblock: VeritySuperblock,
    node: usize,
    device: BlockDevice,
    source: DeviceSource,
    function: HashFunction,
}

fn read(source: &DeviceSource, offset: u64, size: u32) -> Attempt<Vec<u8>> {
    let mut bytes = vec![0; size as usize];
    let mut done = 0;
    while done < bytes.len() {
        match source.read_at(&mut bytes[done..], offset.saturating_add(done as u64)) {
            Ok(0) => return Err("the hashes are cut off".to_owned()),
            Ok(count) => done += count,
            Err(error) => return Err(reason(&error)),
        }
    }
    Ok(bytes)
}

impl Hashes {
    /// The hash area at an offset of a node, if it matches the root hash. `None`: there is no area.
    fn find(stack: &Stack, node: usize, offset: u64, root: &RootHash) -> Attempt<Option<Self>> {
        let device = stack.nodes()[node].device.clone();
        let source = device.source().map_err(|error| reason(&error))?;
        let found = VeritySuperblock::read(&source, offset).map_err(|error| reason(&error))?;
        let Some(superblock) = found else {
            return Ok(None);
        };
        let function = hashes::find(&superblock.algorithm)?;
        let hashes = Self {
            superblock,
            node,
            device,
            source,
            function,
        };
        let levels = hashes.superblock.levels(root.0.len());
        let top = match levels.last() {
            Some(&top) => read(&hashes.source, top, hashes.superblock.hash_block_size)?,
            // With one data block its hash is the root hash; the data is found later.
            None => return Ok(Some(hashes)),
        };
        if *hashes.digest(&top) == root.0 {
            Ok(Some(hashes))
        } else {
            Err(format!(
                "the root hash{} is not that of these hashes",
                Hint::RootHash
            ))
        }
    }

    fn digest(&self, block: &[u8]) -> Vec<u8> {
        let salt = &self.superblock.salt;
        let salted = match self.superblock.hash_type {
            0 => [block, salt].concat(),
            _ => [salt, block].concat(),
        };
        (self.function.digest)(&salted).to_vec()
    }

    /// Whether the first block of a device matches the first hash.
    fn is_about(&self, device: &BlockDevice, root: &RootHash) -> Attempt<bool> {
        let superblock = &self.superblock;
        let source = device.source().map_err(|error| reason(&error))?;
        if source.size() < superblock.data_size() {
            return Ok(false);
        }
        let first = self.digest(&read(&source, 0, superblock.data_block_size)?);
        match superblock.levels(root.0.len()).first() {
            None => Ok(first == root.0),
            Some(&leaves) => {
                let leaves = read(&self.source, leaves, superblock.hash_block_size)?;
                Ok(leaves.starts_with(&first))
            }
        }
    }

    /// The node with the data of these hashes.
    fn data(&self, stack: &Stack, root: &RootHash) -> Attempt<Option<usize>> {
        for (index, node) in stack.nodes().iter().enumerate() {
            let other = index != self.node || !node.holds(HASHES);
            if other && self.is_about(&node.device, root)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn map(
        &self,
        name: &str,
        data: &BlockDevice,
        root: &RootHash,
        context: &Context,
    ) -> Attempt<BlockDevice> {
        let superblock = &self.superblock;
        let salt = if superblock.salt.is_empty() {
            "-".to_owned()
        } else {
            hex::encode(&superblock.salt)
        };
        let table = [Target {
            start: 0,
            size: superblock.data_size() / SECTOR,
            kind: "verity",
            parameters: format!(
                "{} {} {} {} {} {} {} {} {} {salt}",
                superblock.hash_type,
                data.number(),
                self.device.number(),
                superblock.data_block_size,
                superblock.hash_block_size,
                superblock.data_blocks,
                superblock.first_block,
                superblock.algorithm,
                root
            ),
        }];
        let below = [data.clone(), self.device.clone()];
        let mapped = context.kernel.map(name, true, &table, &below);
        mapped.map_err(|error| format!("the kernel cannot verify it: {}", reason(&error)))
    }
}

/// Offsets in a node where hashes may begin.
fn places(stack: &Stack, index: usize, given: Option<u64>) -> Vec<u64> {
    let node = &stack.nodes()[index];
    let Some(probe) = &node.probe else {
        return given.into_iter().collect();
    };
    let end = probe.size.filter(|&size| size > 0 && size < node.size);
    match (given, probe.kind) {
        (Some(offset), _) => vec![offset],
        (None, HASHES) => vec![0],
        (None, _) => {
            let aligned = |size: u64| ALIGNMENTS.map(|unit| size.next_multiple_of(unit));
            let mut places: Vec<u64> = end.into_iter().flat_map(aligned).collect();
            places.dedup();
            places
        }
    }
}

/// Opens the data of the root hash, once.
pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    let Some(root) = &context.options.verity else {
        return Ok(());
    };
    if stack.nodes().iter().any(|node| node.sort == VERIFIED) {
        return Ok(());
    }
    for index in 0..stack.nodes().len() {
        for offset in places(stack, index, context.options.verity_offset) {
            match open_at(stack, index, offset, root, context) {
                Ok(None) => {}
                Ok(Some((below, details, device))) => {
                    stack.add(&below, VERIFIED, Selector::Same, details, device)?;
                    return Ok(());
                }
                Err(problem) => stack.node_mut(index).problem = Some(problem),
            }
        }
    }
    Ok(())
}

/// Result of opening: nodes below, details, device.
type Opened = (Vec<usize>, String, BlockDevice);

fn open_at(
    stack: &Stack,
    index: usize,
    offset: u64,
    root: &RootHash,
    context: &Context,
) -> Attempt<Option<Opened>> {
    let Some(hashes) = Hashes::find(stack, index, offset, root)? else {
        return Ok(None);
    };
    let data = hashes.data(stack, root)?;
    let data = data.ok_or("no partition or disk matches this root hash")?;
    let mut below = vec![data];
    below.extend((index != data).then_some(index));
    let device = &stack.nodes()[data].device;
    let device = hashes.map(&stack.mapping_name(""), device, root, context)?;
    let details = format!("dm-verity {}", hashes.superblock.algorithm);
    Ok(Some((below, details, device)))
}

/// If a root hash was given, refuses data that it does not cover: everything that is read must be
/// verified.
pub fn check(stack: &Stack, index: usize, context: &Context, write: bool) -> Result<()> {
    let is_verified = stack.is_or_lies_on(index, |node| node.sort == VERIFIED);
    let shown = stack.name(index);
    match (is_verified, write) {
        (true, true) => Err(Error::hinted(ErrorKind::ReadOnly, Hint::RootHash, |by| {
            format!("cannot write to {shown}: it is verified{by}, and can only be read")
        })),
        (false, false) if context.options.verity.is_some() => {
            let problems = stack.problems_of_disk(index);
            let why = problems.map_or(String::new(), |problems| format!("\n  {problems}"));
            Err(Error::hinted(ErrorKind::Damaged, Hint::RootHash, |given| {
                format!("{shown} does not match the root hash{given}{why}")
            }))
        }
        _ => Ok(()),
    }
}
