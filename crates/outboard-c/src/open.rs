// SPDX-License-Identifier: GPL-2.0-only
//! Opening and closing volumes.

use crate::argument::{shown, In, InBytes, Out, Text, Texts, Versioned};
use crate::handle::{add_volume, take_volume, Handle};
use crate::result::{status, CallFailure, Result};
use outboard_volume::{Options, RootHash, Volume};
use std::ffi::{c_int, OsStr};
use std::time::Duration;

/// `struct ob_volume_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct VolumeOptions<'a> {
    size: usize,
    flags: u32,
    vcpus: u32,
    memory: u64,
    key_file: Text<'a>,
    key: InBytes<'a>,
    key_length: usize,
    kind: Text<'a>,
    disks: Texts<'a>,
    backing: Texts<'a>,
    components: Texts<'a>,
    verity_root_hash: Text<'a>,
    verity_offset: u64,
    integrity: Text<'a>,
    snapshots: Text<'a>,
    network: Text<'a>,
    server_timeout: u64,
}

// SAFETY: all of it holds; pointers may be NULL.
unsafe impl Versioned for VolumeOptions<'_> {
    const LEAST: usize = 104;
    const NAME: &'static str = "ob_volume_options";
}

pub const WRITABLE: u32 = 1;
const RAW: u32 = 2;
const CONTAIN_PANIC: u32 = 4;

/// Flags that nobody knows are a failure: the caller expects what this library does not do.
pub fn check_flags(flags: u32, known: u32) -> Result<()> {
    match flags & !known {
        0 => Ok(()),
        others => Err(CallFailure::usage(format!(
            "this call has no flags {others:#x}"
        ))),
    }
}

/// The text of a string.
pub fn utf8<'a>(text: &'a OsStr, what: &str) -> Result<&'a str> {
    text.to_str()
        .ok_or_else(|| CallFailure::usage(format!("{what} is no text: {}", shown(text))))
}

fn root_hash(text: &str) -> Result<RootHash> {
    match hex::decode(text) {
        Ok(hash) if !hash.is_empty() => Ok(RootHash(hash)),
        _ => {
            let text = format!("the root hash {text:?} is no even number of hexadecimal digits");
            Err(CallFailure::usage(text))
        }
    }
}

impl VolumeOptions<'_> {
    pub fn is_writable(&self) -> bool {
        self.flags & WRITABLE != 0
    }

    pub fn to_options(self) -> Result<Options> {
        check_flags(self.flags, WRITABLE | RAW | CONTAIN_PANIC)?;
        let mut options = Options::new()
            .raw(self.flags & RAW != 0)
            .contain_panic(self.flags & CONTAIN_PANIC != 0);
        if self.vcpus > 64 {
            return Err(CallFailure::usage(format!(
                "{} vCPUs are too many: use 1 to 64",
                self.vcpus
            )));
        }
        if self.vcpus > 0 {
            options = options.vcpus(self.vcpus);
        }
        if self.memory > 0 {
            options = options.memory(self.memory);
        }
        if let Some(path) = self.key_file.optional() {
            options = options.key_file(path);
        }
        let key = self.key.get(self.key_length, "the key")?;
        if !key.is_empty() {
            options = options.key(key);
        } else if !self.key.is_null() {
            return Err(CallFailure::usage("the key has no bytes: its length is 0"));
        }
        for path in self.disks.all() {
            options = options.disk(path);
        }
        for path in self.backing.all() {
            options = options.backing(path);
        }
        for path in self.components.all() {
            options = options.component(path);
        }
        if let Some(directory) = self.snapshots.optional() {
            options = options.snapshots(directory);
        }
        self.file_system(self.servers(options)?)
    }

    fn servers(&self, mut options: Options) -> Result<Options> {
        if let Some(interface) = self.network.optional() {
            options = options.network(utf8(interface, "the network interface")?);
        }
        if self.server_timeout > 0 {
            options = options.server_timeout(Duration::from_secs(self.server_timeout));
        }
        Ok(options)
    }

    fn file_system(self, mut options: Options) -> Result<Options> {
        if let Some(kind) = self.kind.optional() {
            options = options.kind(utf8(kind, "the type of the file system")?);
        }
        if let Some(text) = self.verity_root_hash.optional() {
            options = options.verity(root_hash(utf8(text, "the root hash")?)?);
        }
        if self.verity_offset > 0 {
            options = options.verity_offset(self.verity_offset);
        }
        if let Some(algorithm) = self.integrity.optional() {
            options = options.integrity(utf8(algorithm, "the algorithm of integrity")?);
        }
        Ok(options)
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_open(
    name: Text,
    options: In<VolumeOptions>,
    volume: Out<Handle>,
) -> c_int {
    status(|| {
        let volume = volume.checked("the pointer for the volume", Handle::NONE)?;
        let name = name.required("the name of the volume")?;
        let given = options.get()?;
        let writable = given.is_some_and(|given| given.is_writable());
        let options = given.map_or_else(|| Ok(Options::new()), VolumeOptions::to_options)?;
        let opened = if writable {
            Volume::open_writable(name, options)
        } else {
            Volume::open(name, options)
        };
        volume.set(add_volume(opened?));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_close(volume: Handle) -> c_int {
    status(|| Ok(take_volume(volume)?.close()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_hashes() {
        assert!(root_hash("00fF").is_ok_and(|hash| hash == RootHash(vec![0, 255])));
        for text in ["", "0", "0g", "+1", "00\u{e9}"] {
            assert!(root_hash(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_options_are_those_of_the_header() {
        assert_eq!(size_of::<VolumeOptions>(), 128);
    }
}
