// SPDX-License-Identifier: GPL-2.0-only
//! Stand-alone devices of dm-integrity: each block has a tag that proves its contents.

use super::{Attempt, Context, Selector, Stack};
use outboard::{BlockDevice, Target};
use outboard_error::{reason, warn, Hint, Result};
use outboard_image::integrity::IntegritySuperblock;
use outboard_image::Source;

const KIND: &str = "DM_integrity";
/// The default algorithm of integritysetup.
const USUAL: &str = "crc32c";

/// How the kernel treats tags and journal: its mode letters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Journal,
    Bitmap,
    /// Without the journal, which must be empty on a read-only device.
    Direct,
    /// Reads the data, without checks.
    Recovery,
}

impl Mode {
    fn letter(self) -> char {
        match self {
            Mode::Journal => 'J',
            Mode::Bitmap => 'B',
            Mode::Direct => 'D',
            Mode::Recovery => 'R',
        }
    }
}

/// Of the tags.
fn algorithm<'a>(context: &'a Context) -> &'a str {
    context.options.integrity.as_deref().unwrap_or(USUAL)
}

fn map(
    stack: &Stack,
    device: &BlockDevice,
    superblock: &IntegritySuperblock,
    mode: Mode,
    context: &Context,
) -> Attempt<BlockDevice> {
    let mut options = vec![
        format!("internal_hash:{}", algorithm(context)),
        format!("block_size:{}", superblock.block_size),
    ];
    let flags = [
        (superblock.fixed_padding, "fix_padding"),
        (superblock.fixed_hmac, "fix_hmac"),
        (
            superblock.recalculating && mode != Mode::Recovery,
            "recalculate",
        ),
    ];
    options.extend(
        flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| (*name).to_owned()),
    );
    let table = [Target {
        start: 0,
        size: superblock.sectors,
        kind: "integrity",
        parameters: format!(
            "{} 0 {} {} {} {}",
            device.number(),
            superblock.tag_size,
            mode.letter(),
            options.len(),
            options.join(" ")
        ),
    }];
    let below = [device.clone()];
    let name = stack.mapping_name(&mode.letter().to_string());
    let mapped = context.kernel.map(&name, context.read_only, &table, &below);
    mapped.map_err(|error| {
        let algorithm = algorithm(context);
        let why = reason(&error);
        let given = Hint::TagAlgorithm;
        format!("the kernel cannot open it with tags of type {algorithm}{given}: {why}")
    })
}

/// The state of a new mapping.
enum Health {
    Good,
    /// The first block has a wrong tag.
    WrongTags,
    /// The journal cannot be replayed, so all requests fail. The reason.
    Failed(String),
}

fn health(mapped: &BlockDevice) -> Health {
    let mut byte = [0];
    let read = mapped
        .source()
        .and_then(|source| source.read_at(&mut byte, 0));
    let Err(error) = read else {
        return Health::Good;
    };
    // The first word counts wrong tags.
    let status = mapped.status().unwrap_or_default();
    let count = status
        .split(' ')
        .next()
        .and_then(|count| count.parse().ok());
    match count.unwrap_or(0u64) {
        0 => Health::Failed(reason(&error)),
        _ => Health::WrongTags,
    }
}

fn open_one(stack: &Stack, index: usize, context: &Context) -> Attempt<(String, BlockDevice)> {
    let device = &stack.nodes()[index].device;
    let source = device.source().map_err(|error| reason(&error))?;
    let superblock = IntegritySuperblock::read(&source, 0).map_err(|error| reason(&error))?;
    let superblock = superblock.ok_or("its superblock makes no sense")?;
    if superblock.journal_mac {
        return Err("its journal is guarded by a key, which is not supported".to_owned());
    }
    let algorithm = algorithm(context);
    let details = format!("dm-integrity {algorithm}");
    let mode = match (context.read_only, superblock.bitmap) {
        (false, false) => Mode::Journal,
        (false, true) => Mode::Bitmap,
        (true, _) if superblock.recalculating => Mode::Recovery,
        (true, _) => Mode::Direct,
    };
    let mapped = map(stack, device, &superblock, mode, context)?;
    match (health(&mapped), mode) {
        (Health::Good, _) => Ok((details, mapped)),
        (Health::WrongTags, _) => Err(format!(
            "its tags are not of type {algorithm}{}, or it is damaged",
            Hint::TagAlgorithm
        )),
        (Health::Failed(_), Mode::Direct) => {
            let mapped = map(stack, device, &superblock, Mode::Recovery, context)?;
            warn(format!(
                "{}: not left well, and opened without its journal: tags are not checked",
                stack.name(index)
            ));
            Ok((details, mapped))
        }
        (Health::Failed(why), _) => Err(why),
    }
}

pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    for index in stack.unopened(KIND) {
        if stack.nodes()[index].problem.is_some() {
            continue;
        }
        match open_one(stack, index, context) {
            Ok((details, device)) => {
                stack.add(&[index], "checked", Selector::Same, details, device)?;
            }
            Err(problem) => stack.node_mut(index).problem = Some(problem),
        }
    }
    Ok(())
}
