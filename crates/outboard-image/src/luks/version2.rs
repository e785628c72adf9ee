// SPDX-License-Identifier: GPL-2.0-only
//! LUKS version 2: a block of fields, big-endian, then JSON; both twice, the second time as a copy.

use super::parts::{Derivation, Digest, KeySlot, KeyslotArea, LuksHeader, LuksSegment};
use super::version1;
use crate::block::{fetch, Block};
use crate::source::Source;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde::Deserialize;
use sha2::{Digest as _, Sha256, Sha512};
use std::collections::BTreeMap;

pub(crate) const COPY_MAGIC: &[u8] = b"SKUL\xba\xbe";
/// The block of fields.
const FIELDS: usize = 4096;
const CHECKSUM: usize = 448;
/// Most key slots, as in cryptsetup, and bytes of the largest hash.
const MOST_SLOTS: usize = 32;
const LONGEST_DIGEST: usize = 64;
/// Possible sizes of a header with its JSON; the copy follows directly.
pub(crate) const SIZES: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

#[derive(Deserialize)]
struct Json {
    keyslots: BTreeMap<String, JsonSlot>,
    segments: BTreeMap<String, JsonSegment>,
    digests: BTreeMap<String, JsonDigest>,
    config: JsonConfig,
}

#[derive(Deserialize)]
struct JsonSlot {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    key_size: usize,
    af: Option<JsonSpread>,
    area: Option<JsonArea>,
    kdf: Option<JsonDerivation>,
    priority: Option<u8>,
}

#[derive(Deserialize)]
struct JsonSpread {
    stripes: usize,
    hash: String,
}

#[derive(Deserialize)]
struct JsonArea {
    offset: String,
    encryption: Option<String>,
    key_size: Option<usize>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum JsonDerivation {
    #[serde(rename = "pbkdf2")]
    Pbkdf2 {
        hash: String,
        iterations: u32,
        salt: String,
    },
    #[serde(rename = "argon2i")]
    Argon2i(JsonArgon2),
    #[serde(rename = "argon2id")]
    Argon2id(JsonArgon2),
}

#[derive(Deserialize)]
struct JsonArgon2 {
    time: u32,
    memory: u32,
    cpus: u32,
    salt: String,
}

#[derive(Deserialize)]
struct JsonSegment {
    #[serde(rename = "type")]
    kind: String,
    offset: String,
    size: String,
    iv_tweak: Option<String>,
    encryption: Option<String>,
    sector_size: Option<u32>,
    integrity: Option<JsonIntegrity>,
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
struct JsonIntegrity {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct JsonDigest {
    #[serde(rename = "type")]
    kind: String,
    keyslots: Vec<String>,
    segments: Vec<String>,
    hash: String,
    iterations: u32,
    salt: String,
    digest: String,
}

#[derive(Deserialize)]
struct JsonConfig {
    #[serde(default)]
    flags: Vec<String>,
    requirements: Option<JsonRequirements>,
}

#[derive(Deserialize)]
struct JsonRequirements {
    #[serde(default)]
    mandatory: Vec<String>,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("\"{}\" is no number", text.escape_debug()))
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|_| "wrong base64 in the header".to_owned())
}

/// A header with a valid checksum, and the place of its JSON.
struct ValidHeader {
    sequence: u64,
    uuid: String,
    json: Vec<u8>,
}

/// Whether the checksum is right.
fn is_right(algorithm: &str, block: &Block, whole: &Block) -> Result<bool, String> {
    let mut bytes = whole.bytes(0, whole.len()).to_vec();
    bytes[CHECKSUM..CHECKSUM + 64].fill(0);
    let sum = match algorithm {
        "sha256" => Sha256::digest(&bytes).to_vec(),
        "sha512" => Sha512::digest(&bytes).to_vec(),
        other => {
            let other = other.escape_debug();
            return Err(format!("the header has checksums of type {other}"));
        }
    };
    Ok(block.has(CHECKSUM, &sum))
}

/// The header at an offset. `None`: there is none.
fn find(
    source: &(impl Source + ?Sized),
    offset: u64,
    magic: &[u8],
) -> Result<Option<ValidHeader>, String> {
    let Some(block) = fetch(source, offset, FIELDS) else {
        return Ok(None);
    };
    let size = block.be64(8);
    let is_header = block.has(0, magic) && block.be16(6) == 2 && block.be64(256) == offset;
    if !is_header || !SIZES.contains(&size) {
        return Ok(None);
    }
    let whole = fetch(source, offset, size as usize).ok_or("the header is cut off")?;
    let algorithm = block.text(72, 32).unwrap_or_default();
    if !is_right(&algorithm, &block, &whole)? {
        return Ok(None);
    }
    let area = whole.bytes(FIELDS, size as usize - FIELDS);
    let end = area
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(area.len());
    Ok(Some(ValidHeader {
        sequence: block.be64(16),
        uuid: block.text(168, 40).unwrap_or_default(),
        json: area[..end].to_vec(),
    }))
}

/// The newest valid header.
fn newest(source: &(impl Source + ?Sized)) -> Result<ValidHeader, String> {
    let mut found = vec![find(source, 0, version1::MAGIC)];
    found.extend(SIZES.map(|offset| find(source, offset, COPY_MAGIC)));
    let mut problem = None;
    let whole = found.into_iter().filter_map(|found| match found {
        Ok(found) => found,
        Err(error) => {
            problem = problem.take().or(Some(error));
            None
        }
    });
    let newest = whole.max_by_key(|found| found.sequence);
    newest.ok_or_else(|| {
        problem.unwrap_or_else(|| "the header is damaged, and so is its copy".to_owned())
    })
}

fn check_requirements(config: &JsonConfig) -> Result<(), String> {
    let mut needs = config
        .requirements
        .iter()
        .flat_map(|needs| &needs.mandatory);
    match needs.next() {
        None => Ok(()),
        Some(name) if name.starts_with("online-reencrypt") => Err(
            "it is being encrypted anew: finish that first with cryptsetup reencrypt".to_owned(),
        ),
        Some(name) => Err(format!(
            "it needs \"{}\", which is not known",
            name.escape_debug()
        )),
    }
}

fn derivation(json: JsonDerivation) -> Result<Derivation, String> {
    let argon2 = |id: bool, json: JsonArgon2| {
        Ok(Derivation::Argon2 {
            id,
            time: json.time,
            memory: json.memory,
            lanes: json.cpus,
            salt: bytes(&json.salt)?,
        })
    };
    match json {
        JsonDerivation::Pbkdf2 {
            hash,
            iterations,
            salt,
        } => Ok(Derivation::Pbkdf2 {
            hash,
            iterations,
            salt: bytes(&salt)?,
        }),
        JsonDerivation::Argon2i(json) => argon2(false, json),
        JsonDerivation::Argon2id(json) => argon2(true, json),
    }
}

/// A key slot and its priority. `None`: another type, such as that of a re-encryption.
fn slot(name: &str, json: JsonSlot) -> Result<Option<(u8, KeySlot)>, String> {
    let (Some(spread), Some(area), Some(kdf)) = (json.af, json.area, json.kdf) else {
        return Ok(None);
    };
    if json.kind != "luks2" {
        return Ok(None);
    }
    let slot = KeySlot {
        number: name.parse().map_err(|_| "a key slot has no number")?,
        derivation: derivation(kdf)?,
        area: KeyslotArea {
            offset: number(&area.offset)?,
            cipher: area.encryption.unwrap_or_default(),
            key_size: area.key_size.unwrap_or(0),
        },
        key_size: json.key_size,
        stripes: spread.stripes,
        hash: spread.hash,
    };
    Ok(Some((json.priority.unwrap_or(1), slot)))
}

fn segment(json: JsonSegment) -> Result<LuksSegment, String> {
    let (kind, encryption) = (json.kind, json.encryption);
    let (true, Some(cipher)) = (kind == "crypt", encryption) else {
        return Err(format!("its data is of type {}", kind.escape_debug()));
    };
    Ok(LuksSegment {
        offset: number(&json.offset)?,
        size: match json.size.as_str() {
            "dynamic" => None,
            size => Some(number(size)?),
        },
        cipher,
        sector_size: json.sector_size.unwrap_or(512),
        first: json.iv_tweak.as_deref().map_or(Ok(0), number)?,
        integrity: json.integrity.map(|integrity| integrity.kind),
    })
}

pub(super) fn read(source: &(impl Source + ?Sized)) -> Result<LuksHeader, String> {
    let found = newest(source)?;
    let json: Json = serde_json::from_slice(&found.json)
        .map_err(|error| format!("the header's JSON is wrong: {error}"))?;
    check_requirements(&json.config)?;
    let is_data =
        |segment: &JsonSegment| !segment.flags.iter().any(|flag| flag.starts_with("backup-"));
    let mut segments = json
        .segments
        .into_iter()
        .filter(|(_, segment)| is_data(segment));
    let (Some((id, only)), None) = (segments.next(), segments.next()) else {
        return Err("its data is not in one piece".to_owned());
    };
    let digest = json
        .digests
        .into_values()
        .find(|digest| digest.segments.contains(&id))
        .ok_or("no digest tells its key")?;
    if digest.kind != "pbkdf2" {
        return Err(format!(
            "its digest is of type {}",
            digest.kind.escape_debug()
        ));
    }
    if json.keyslots.len() > MOST_SLOTS {
        return Err(format!("it has more than {MOST_SLOTS} key slots"));
    }
    let value = bytes(&digest.digest)?;
    if value.len() > LONGEST_DIGEST {
        return Err(format!("its digest has more than {LONGEST_DIGEST} bytes"));
    }
    let mut slots = Vec::new();
    for (name, json) in json.keyslots {
        if digest.keyslots.contains(&name) {
            slots.extend(slot(&name, json)?);
        }
    }
    slots.sort_by_key(|(priority, slot)| (std::cmp::Reverse(*priority), slot.number));
    Ok(LuksHeader {
        version: 2,
        uuid: found.uuid,
        slots: slots.into_iter().map(|(_, slot)| slot).collect(),
        digest: Digest {
            hash: digest.hash,
            iterations: digest.iterations,
            salt: bytes(&digest.salt)?,
            digest: value,
        },
        segment: segment(only)?,
        flags: json.config.flags,
    })
}
