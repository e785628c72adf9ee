// SPDX-License-Identifier: GPL-2.0-only
//! The parsers of images of containers for the targets in fuzz/, and what must hold for their
//! results.

use super::documents::{parse, DockerManifest, ImageConfig, Index, Manifest};
use super::layered_tree::LayeredTree;
use crate::erofs::{self, BlockFile, FileTree};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::tar::input::ArchiveInput;
use outboard_transfer::tar::visit::visit;
use std::fs::File;
use std::io::Cursor;

/// Most bytes of a file system here: the target counts what the input makes it write.
const MOST: u64 = 16 << 20;

/// Reads a document as each of its kinds.
pub fn documents(bytes: &[u8]) {
    let _ = parse::<Index>(bytes);
    let _ = parse::<Manifest>(bytes);
    let _ = parse::<Vec<DockerManifest>>(bytes);
    if let Ok(config) = parse::<ImageConfig>(bytes) {
        let known = config.rootfs.diff_ids.len();
        if let Ok(digests) = config.layer_digests(known) {
            assert_eq!(digests.len(), known);
        }
        assert!(config.layer_digests(known + 1).is_err());
    }
}

/// Merges layers, which are archives, and writes their file system into an empty file. Layers after
/// a damaged one are left out.
pub fn layers(archives: &[Vec<u8>], file: File) {
    let mut blocks = BlockFile::new(file, MOST);
    let mut tree = LayeredTree::new();
    for archive in archives {
        tree.begin_layer();
        let input = ArchiveInput::of_reader(Cursor::new(archive.clone()), "it");
        let visited = visit(input, &Interrupt::default(), |member, data| {
            tree.add("it", &member, data, &mut blocks)
        });
        if visited.is_err() {
            break;
        }
    }
    let (tree, _) = tree.finish();
    check(&tree);
    if let Ok(size) = erofs::write(&tree, &mut blocks) {
        assert!(size <= MOST, "{size}");
    }
}

/// Each directory has one name, and no name leads elsewhere.
fn check(tree: &FileTree) {
    let mut is_seen = vec![false; tree.len()];
    let mut waiting = vec![tree.root()];
    while let Some(node) = waiting.pop() {
        let Some(entries) = tree.entries(node) else {
            continue;
        };
        assert!(!std::mem::replace(&mut is_seen[node], true));
        for (name, entry) in entries {
            let is_name = !name.is_empty() && name != b"." && name != b"..";
            assert!(is_name && name.len() <= 255, "{name:?}");
            assert!(!name.contains(&b'/') && !name.contains(&0), "{name:?}");
            waiting.push(entry.node);
        }
    }
}
