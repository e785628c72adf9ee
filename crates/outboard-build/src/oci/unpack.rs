// SPDX-License-Identifier: GPL-2.0-only
//! Makes one file system of the layers of an image, in a process that is sandboxed: it has the
//! image's files and the new file open, and can open no others.

use super::digest::BlobDigest;
use super::found::{damaged, FoundImage, Layer};
use super::layered_tree::LayeredTree;
use crate::erofs::{self, BlockFile};
use outboard::Fd;
use outboard_error::format::size as size_text;
use outboard_error::{front, warn, Error, ErrorKind, Failure, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::{HostAccess, Sandbox};
use outboard_transfer::tar::input::ArchiveInput;
use outboard_transfer::tar::plain_reader;
use outboard_transfer::tar::visit::visit;
use outboard_worker::WorkerProcess;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Most bytes of an image that is made, and of a layer without compression.
const MOST: u64 = 32 << 30;

/// The file mode mask of the process, which makes no file.
const PRIVATE: u32 = 0o077;

/// Unpacks an image into an empty file. `confined`: in the sandbox.
pub(super) fn unpack(image: &FoundImage, file: &File, confined: bool) -> Result<()> {
    check_space(image, file)?;
    let options = Interrupt::of_copy(PRIVATE);
    let copy = WorkerProcess::<(), (), ()>::copy(options, |_| {
        if confined {
            enter_sandbox()?;
        }
        make(image, file)
    });
    let failed = |error| Error::failed("cannot start a process that unpacks layers", &error);
    copy.map_err(failed)?.finish()
}

/// Refuses layers that do not fit as they are stored: without compression, they take no less.
fn check_space(image: &FoundImage, file: &File) -> Result<()> {
    let needed: u64 = image.layers.iter().map(|layer| layer.bytes.size()).sum();
    let found = file.try_clone().map(OwnedFd::from).map(Fd::from);
    let Ok(found) = found.and_then(|file| file.statfs()) else {
        return Ok(());
    };
    let block = u64::try_from(found.block_size).unwrap_or_default();
    let free = found.blocks_available.saturating_mul(block);
    if needed <= free {
        return Ok(());
    }
    let text = format!(
        "cannot unpack {}: its layers have {}, and {} are free in the cache of images; make room, \
         or set XDG_CACHE_HOME to a directory on another disk",
        image.shown,
        size_text(needed),
        size_text(free)
    );
    Err(Error::known(ErrorKind::NoSpace, text))
}

/// The files are open: none has to be found by its name.
fn enter_sandbox() -> Result<()> {
    let access = HostAccess {
        images: vec![(PathBuf::from("/dev/null"), false)],
        parses: true,
        ..HostAccess::default()
    };
    Sandbox::enter(&access, None, &[])?.close()
}

fn make(image: &FoundImage, file: &File) -> Result<()> {
    let failed = |error: io::Error| {
        let what = "cannot write to the cache of images";
        Error::from(Failure::of(&error).after(what))
    };
    let interrupt = Interrupt::poll();
    let mut blocks = BlockFile::new(file.try_clone().map_err(failed)?, MOST);
    let mut tree = LayeredTree::new();
    let sizes = image.layers.iter().map(|layer| layer.bytes.size());
    let progress = front().progress("unpacking", sizes.sum());
    let mut done = 0;
    for (index, layer) in image.layers.iter().enumerate() {
        let shown = format!("{}: layer {}", image.shown, index + 1);
        check_stored(layer, &shown)?;
        tree.begin_layer();
        add_layer(layer, &shown, &mut tree, &mut blocks, &interrupt)?;
        done += layer.bytes.size();
        progress(done);
    }
    let (tree, lost) = tree.finish();
    if lost > 0 {
        warn(format!(
            "note: {}: {lost} extended attributes are of kinds that are not kept",
            image.shown
        ));
    }
    erofs::write(&tree, &mut blocks).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Nothing of a layer is looked at before this.
fn check_stored(layer: &Layer, shown: &str) -> Result<()> {
    let Some(stored) = layer.stored else {
        return Ok(());
    };
    let failed = |error| Error::failed(format!("cannot read {shown}"), &error);
    let found = BlobDigest::of_reader(layer.bytes.clone()).map_err(failed)?;
    check_digest(stored, found, shown)
}

fn check_digest(wanted: BlobDigest, found: BlobDigest, shown: &str) -> Result<()> {
    if wanted == found {
        return Ok(());
    }
    let why = format!("its digest is {found}, not {wanted}: copy the image again");
    Err(damaged(shown, why))
}

fn add_layer(
    layer: &Layer,
    shown: &str,
    tree: &mut LayeredTree,
    blocks: &mut BlockFile,
    interrupt: &Interrupt,
) -> Result<()> {
    let hash = Arc::new(Mutex::new(Sha256::new()));
    let plain = plain_reader(Box::new(layer.bytes.clone()), shown)?;
    let reader = HashedReader {
        reader: plain,
        hash: Arc::clone(&hash),
        left: MOST,
    };
    let input = ArchiveInput::of_reader(reader, shown);
    let visited = visit(input, interrupt, |member, data| {
        tree.add(shown, &member, data, blocks)
    });
    visited?;
    let hash = std::mem::take(&mut *hash.lock().expect("no thread panics"));
    check_digest(layer.plain, BlobDigest::of_hash(hash), shown)
}

/// Computes the digest of what is read.
struct HashedReader<R> {
    reader: R,
    hash: Arc<Mutex<Sha256>>,
    /// Bytes that may still come.
    left: u64,
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        let Some(left) = self.left.checked_sub(length as u64) else {
            return Err(io::Error::other(
                "it has more bytes without compression than are unpacked here",
            ));
        };
        self.left = left;
        if let Ok(mut hash) = self.hash.lock() {
            hash.update(&buffer[..length]);
        }
        Ok(length)
    }
}
