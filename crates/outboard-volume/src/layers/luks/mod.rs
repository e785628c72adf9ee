// SPDX-License-Identifier: GPL-2.0-only
//! Encrypted volumes: LUKS version 1 and 2.
//!
//! [`derive`] turns a passphrase into the key of a key slot. The kernel, which has all ciphers,
//! decrypts the slot's stripes with that key. Merged, the stripes are the volume's key, if it
//! matches the header's digest. With the volume's key, the kernel maps the volume.

mod derive;

use self::derive::Budget;
use super::keys::Secret;
use super::{Attempt, Context, Selector, Stack};
use outboard::{BlockDevice, Target};
use outboard_error::{reason, Error, ErrorKind, Hint, Result};
use outboard_image::luks::{KeySlot, LuksHeader};
use outboard_image::Source;
use std::fmt::Write;
use std::io;

const KIND: &str = "crypto_LUKS";
pub const ENCRYPTED: &str = "encrypted";
const SECTOR: u64 = 512;
/// Number of tries at a passphrase.
const TRIES: usize = 3;
/// Flags of the header, and their names in the kernel's table.
const FLAGS: [(&str, &str); 5] = [
    ("allow-discards", "allow_discards"),
    ("same-cpu-crypt", "same_cpu_crypt"),
    ("submit-from-crypt-cpus", "submit_from_crypt_cpus"),
    ("no-read-workqueue", "no_read_workqueue"),
    ("no-write-workqueue", "no_write_workqueue"),
];

/// An encrypted volume to open.
struct LuksVolume {
    header: LuksHeader,
    device: BlockDevice,
    /// Prefix of names of mappings.
    name: String,
    read_only: bool,
}

/// Appends bytes in hexadecimal, the kernel's format of keys. No other string has the key.
fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}

/// The parameters of a mapping. The string gets its full capacity first, so that the key is not
/// copied.
fn parameters(cipher: &str, key: &[u8], first: u64, device: &BlockDevice, offset: u64) -> String {
    let mut text = String::with_capacity(1024 + 2 * key.len());
    text += cipher;
    text.push(' ');
    push_hex(&mut text, key);
    let _ = write!(text, " {first} {} {}", device.number(), offset / SECTOR);
    text
}

impl LuksVolume {
    fn new(stack: &Stack, index: usize, context: &Context) -> Attempt<Self> {
        let device = stack.nodes()[index].device.clone();
        let source = device.source().map_err(|error| reason(&error))?;
        Ok(Self {
            header: LuksHeader::read(&source).map_err(|error| reason(&error))??,
            device,
            name: stack.mapping_name(""),
            read_only: context.read_only,
        })
    }

    fn details(&self) -> String {
        let segment = &self.header.segment;
        format!("LUKS{} {}", self.header.version, segment.cipher)
    }

    /// The decrypted stripes of a key slot.
    fn pieces(&self, slot: &KeySlot, key: &[u8], context: &mut Context) -> io::Result<Secret> {
        let (area, size) = (&slot.area, slot.size());
        let table = [Target {
            start: 0,
            size: size.div_ceil(SECTOR),
            kind: "crypt",
            parameters: parameters(&area.cipher, key, 0, &self.device, area.offset),
        }];
        let below = [self.device.clone()];
        let name = format!("{}-slot{}", self.name, context.spent.len());
        let device = context.kernel.map(&name, true, &table, &below)?;
        let mapped = device.source()?;
        context.spent.push(device);
        let mut pieces = Secret::zeroed(size as usize);
        let mut done = 0;
        while done < pieces.len() {
            match mapped.read_at(&mut pieces[done..], done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => done += count,
            }
        }
        Ok(pieces)
    }

    /// The volume's key, if the passphrase opens this slot.
    fn open_slot(
        &self,
        slot: &KeySlot,
        passphrase: &[u8],
        budget: &mut Budget,
        context: &mut Context,
    ) -> Attempt<Option<Secret>> {
        let key = derive::area_key(slot, passphrase, budget)?;
        let pieces = self.pieces(slot, &key, context).map_err(|error| {
            format!(
                "the kernel cannot decrypt {}: {}",
                slot.area.cipher,
                reason(&error)
            )
        })?;
        let key = derive::merge(slot, &pieces)?;
        let right = derive::is_right(&self.header.digest, &key, budget)?;
        Ok(right.then_some(key))
    }

    /// The volume's key, if the passphrase opens a slot. An error says why a slot could not be
    /// tried.
    fn find_key(&self, passphrase: &[u8], context: &mut Context) -> Attempt<Option<Secret>> {
        let mut problem = None;
        let mut budget = Budget::new();
        for slot in &self.header.slots {
            match self.open_slot(slot, passphrase, &mut budget, context) {
                Ok(Some(key)) => return Ok(Some(key)),
                Ok(None) => {}
                Err(error) => {
                    problem = Some(format!("key slot {} cannot be tried: {error}", slot.number));
                }
            }
        }
        problem.map_or(Ok(None), Err)
    }

    /// The volume's key, which an earlier command has found.
    fn known_key(&self, context: &Context) -> Option<Secret> {
        let key = context.keys.volume(&self.header.uuid)?;
        let right = derive::is_right(&self.header.digest, &key, &mut Budget::new());
        right.is_ok_and(|right| right).then_some(key)
    }

    /// The optional parameters.
    fn options(&self) -> String {
        let segment = &self.header.segment;
        let has = |flag: &str| self.header.flags.iter().any(|known| known == flag);
        let mut options: Vec<String> = FLAGS
            .iter()
            .filter(|(flag, _)| has(flag))
            .map(|(_, option)| (*option).to_owned())
            .collect();
        if u64::from(segment.sector_size) != SECTOR {
            options.push(format!("sector_size:{}", segment.sector_size));
        }
        if options.is_empty() {
            String::new()
        } else {
            format!(" {} {}", options.len(), options.join(" "))
        }
    }

    /// The device with the decrypted data.
    fn map(&self, key: &[u8], context: &Context) -> Attempt<BlockDevice> {
        let segment = &self.header.segment;
        if segment.integrity.is_some() {
            return Err("authenticated encryption is not supported".to_owned());
        }
        let device_size = self.device.size().map_err(|error| reason(&error))?;
        let room = device_size.saturating_sub(segment.offset);
        let unit = u64::from(segment.sector_size);
        let size = segment.size.unwrap_or(room) / unit * unit;
        let (cipher, first) = (&segment.cipher, segment.first);
        let table = [Target {
            start: 0,
            size: size / SECTOR,
            kind: "crypt",
            parameters: parameters(cipher, key, first, &self.device, segment.offset)
                + &self.options(),
        }];
        let below = [self.device.clone()];
        let mapped = context
            .kernel
            .map(&self.name, self.read_only, &table, &below);
        mapped.map_err(|error| format!("the kernel cannot decrypt {cipher}: {}", reason(&error)))
    }

    /// Adds the decrypted device to the stack.
    fn add(
        &self,
        stack: &mut Stack,
        index: usize,
        key: Secret,
        context: &mut Context,
    ) -> Result<()> {
        match self.map(&key, context) {
            Ok(device) => {
                context.keys.remember_volume(&self.header.uuid, key);
                let node = stack.node_mut(index);
                node.locked = false;
                node.problem = None;
                stack.add(&[index], ENCRYPTED, Selector::Same, self.details(), device)?;
            }
            Err(problem) => {
                let node = stack.node_mut(index);
                node.locked = false;
                node.problem = Some(problem);
            }
        }
        Ok(())
    }
}

/// Opens encrypted volumes with known keys; others become locked.
pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    for index in stack.unopened(KIND) {
        let node = &stack.nodes()[index];
        if node.locked || node.problem.is_some() {
            continue;
        }
        let volume = match LuksVolume::new(stack, index, context) {
            Ok(volume) => volume,
            Err(problem) => {
                stack.node_mut(index).problem = Some(problem);
                continue;
            }
        };
        stack.node_mut(index).details = volume.details();
        let mut key = volume.known_key(context);
        for passphrase in context.keys.known()? {
            if key.is_some() {
                break;
            }
            match volume.find_key(&passphrase, context) {
                Ok(found) => key = found,
                Err(problem) => stack.node_mut(index).problem = Some(problem),
            }
        }
        match key {
            Some(key) => volume.add(stack, index, key, context)?,
            None => stack.node_mut(index).locked = true,
        }
    }
    Ok(())
}

fn encrypted(shown: &str, why: impl std::fmt::Display) -> String {
    format!("{shown} is encrypted: {why}")
}

/// Asks for the passphrase of a locked volume, up to [`TRIES`] times.
pub fn unlock(stack: &mut Stack, index: usize, context: &mut Context) -> Result<()> {
    let shown = stack.name(index);
    if context.keys.has_file() {
        return Err(match stack.nodes()[index].problem.as_deref() {
            Some(problem) => Error::known(ErrorKind::Damaged, encrypted(&shown, problem)),
            None => Error::hinted(ErrorKind::WrongKey, Hint::GivenKey, |key| {
                encrypted(&shown, format!("{key} opens none of its key slots"))
            }),
        });
    }
    let damaged = |problem: String| Error::known(ErrorKind::Damaged, encrypted(&shown, problem));
    let volume = LuksVolume::new(stack, index, context).map_err(damaged)?;
    for _ in 0..TRIES {
        let question = format!("Passphrase of {shown}: ");
        let Some(passphrase) = context.keys.ask(&question)? else {
            return Err(Error::hinted(ErrorKind::KeyNeeded, Hint::KeyFile, |give| {
                encrypted(&shown, give)
            }));
        };
        let found = volume.find_key(&passphrase, context);
        if let Some(key) = found.map_err(damaged)? {
            context.keys.remember(passphrase);
            return volume.add(stack, index, key, context);
        }
        outboard_error::warn("no key slot opens with this passphrase");
    }
    let text = encrypted(&shown, "no passphrase has opened it");
    Err(Error::known(ErrorKind::WrongKey, text))
}
