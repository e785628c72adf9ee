// SPDX-License-Identifier: GPL-2.0-only

use super::parts::LARGEST_AREA;
use super::*;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use sha2::{Digest as _, Sha256};

const AREA: usize = 0x4000;

fn put(bytes: &mut [u8], offset: usize, text: &[u8]) {
    bytes[offset..offset + text.len()].copy_from_slice(text);
}

/// A header of version 2 with this JSON, as it stands at `offset`.
fn header(magic: &[u8], offset: u64, sequence: u64, json: &str) -> Vec<u8> {
    let mut bytes = vec![0; AREA];
    put(&mut bytes, 0, magic);
    put(&mut bytes, 6, &2u16.to_be_bytes());
    put(&mut bytes, 8, &(AREA as u64).to_be_bytes());
    put(&mut bytes, 16, &sequence.to_be_bytes());
    put(&mut bytes, 72, b"sha256");
    put(&mut bytes, 168, format!("uuid-{sequence}").as_bytes());
    put(&mut bytes, 256, &offset.to_be_bytes());
    put(&mut bytes, 4096, json.as_bytes());
    let sum = Sha256::digest(&bytes);
    put(&mut bytes, 448, &sum);
    bytes
}

fn json(slot: &str, segment: &str, config: &str) -> String {
    format!(
        r#"{{"keyslots":{{"0":{{"type":"luks2",
        "key_size":64,"af":{{"type":"luks1","stripes":4000,"hash":"sha256"}},
        "area":{{"type":"raw","offset":"32768","size":"258048",
        "encryption":"aes-xts-plain64","key_size":64}},
        "kdf":{{"type":"argon2id","time":4,"memory":1024,"cpus":2,"salt":"AAAA"}}{slot}}}}},
        "tokens":{{}},
        "segments":{{"0":{{"type":"crypt","offset":"524288","size":"dynamic","iv_tweak":"0",
        "encryption":"aes-xts-plain64","sector_size":512{segment}}}}},
        "digests":{{"0":{{"type":"pbkdf2","keyslots":["0"],"segments":["0"],
        "hash":"sha256","iterations":1000,"salt":"AAAA","digest":"AAAA"}}}},
        "config":{{"json_size":"12288","keyslots_size":"0"{config}}}}}"#
    )
}

fn image(first: &[u8], copy: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    put(&mut bytes, 0, first);
    put(&mut bytes, AREA, copy);
    bytes
}

fn read(bytes: &[u8]) -> Result<LuksHeader, String> {
    LuksHeader::parse(bytes)
}

#[test]
fn version_2_with_its_copy() {
    let good = json("", "", "");
    let first = header(version1::MAGIC, 0, 7, &good);
    let copy = header(b"SKUL\xba\xbe", AREA as u64, 6, &good);
    let mut bytes = image(&first, &copy);
    let found = read(&bytes).unwrap();
    assert_eq!((found.version, found.uuid.as_str()), (2, "uuid-7"));
    assert_eq!(found.slots.len(), 1);
    assert_eq!(found.slots[0].size(), 256_000);
    assert_eq!(found.segment.offset, 524_288);
    bytes[5000] ^= 1;
    assert_eq!(read(&bytes).unwrap().uuid, "uuid-6");
    bytes[..8].fill(0);
    assert_eq!(read(&bytes).unwrap().uuid, "uuid-6");
    bytes[AREA + 5000] ^= 1;
    assert!(read(&bytes).unwrap_err().contains("damaged"));
}

#[test]
fn version_2_with_nonsense() {
    for (slot, segment, config, says) in [
        (r#","key_size":0"#, "", "", "duplicate"),
        ("", r#","integrity":{"type":"a b"}"#, "", "no cipher"),
        ("", r#","flags":["backup-x"]"#, "", "one piece"),
        (
            "",
            "",
            r#","requirements":{"mandatory":["online-reencrypt-v2"]}"#,
            "cryptsetup reencrypt",
        ),
        (
            "",
            "",
            r#","requirements":{"mandatory":["new"]}"#,
            "not known",
        ),
    ] {
        let text = json(slot, segment, config);
        let bytes = image(&header(version1::MAGIC, 0, 1, &text), &[]);
        let error = read(&bytes).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    for (from, to, says) in [
        ("\"stripes\":4000", "\"stripes\":400000000", "impossible"),
        (
            "\"key_size\":64,\"af\"",
            "\"key_size\":5000,\"af\"",
            "impossible",
        ),
        ("\"32768\"", "\"32769\"", "outside"),
        ("\"32768\"", "\"18446744073709551104\"", "outside"),
        ("\"524288\"", "\"99999999999\"", "outside"),
        ("\"dynamic\"", "\"99999999999\"", "outside"),
        ("\"sector_size\":512", "\"sector_size\":513", "sectors"),
        (
            "aes-xts-plain64\",\"key_size\"",
            "aes 0 1\",\"key_size\"",
            "no cipher",
        ),
        ("\"segments\":[\"0\"]", "\"segments\":[]", "no digest"),
        ("\"AAAA\"", "\"?\"", "base64"),
        ("{", "", "JSON"),
    ] {
        let text = json("", "", "").replacen(from, to, 1);
        let bytes = image(&header(version1::MAGIC, 0, 1, &text), &[]);
        let error = read(&bytes).unwrap_err();
        assert!(error.contains(says), "{from}: {error}");
    }
    let deep = format!("{}{}", "[".repeat(6000), "]".repeat(6000));
    assert!(read(&image(&header(version1::MAGIC, 0, 1, &deep), &[])).is_err());
}

#[test]
fn version_1() {
    let mut bytes = vec![0; 1 << 20];
    put(&mut bytes, 0, b"LUKS\xba\xbe\0\x01aes");
    put(&mut bytes, 40, b"xts-plain64");
    put(&mut bytes, 72, b"sha256");
    put(&mut bytes, 104, &1024u32.to_be_bytes());
    put(&mut bytes, 108, &64u32.to_be_bytes());
    put(&mut bytes, 208 + 48, &0x00ac_71f3u32.to_be_bytes());
    put(&mut bytes, 208 + 48 + 40, &8u32.to_be_bytes());
    put(&mut bytes, 208 + 48 + 44, &4000u32.to_be_bytes());
    let found = read(&bytes).unwrap();
    assert_eq!(found.segment.cipher, "aes-xts-plain64");
    assert_eq!(found.segment.offset, 512 * 1024);
    assert_eq!(found.slots[0].number, 1);
    put(&mut bytes, 208 + 48 + 44, &u32::MAX.to_be_bytes());
    assert!(read(&bytes).is_err());
    put(&mut bytes, 6, &3u16.to_be_bytes());
    assert!(read(&bytes).unwrap_err().contains("version 3"));
    assert!(read(&bytes[..4]).is_err());
    assert!(read(&bytes[..100]).is_err());
}

/// A header with too many or too long parts is an error, not a panic.
#[test]
fn digests_and_slots_have_limits() {
    let read_json = |text: &str| read(&image(&header(version1::MAGIC, 0, 1, text), &[]));
    let good = json("", "", "");
    let long = |bytes: usize| format!(r#""digest":"{}""#, STANDARD.encode(vec![0; bytes]));
    let with = |bytes| read_json(&good.replace(r#""digest":"AAAA""#, &long(bytes)));
    assert!(with(64).is_ok());
    assert!(with(65).unwrap_err().contains("64 bytes"));
    let others = |count: usize| {
        let slots: Vec<String> = (1..count)
            .map(|number| format!(r#""{number}":{{"type":"luks2"}},"#))
            .collect();
        let first = r#"{"keyslots":{"#;
        read_json(&good.replacen(first, &format!("{first}{}", slots.concat()), 1))
    };
    assert!(others(32).is_ok());
    assert!(others(33).unwrap_err().contains("32 key slots"));
}

#[test]
fn headers_of_strangers() {
    let good = json("", "", "").into_bytes();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..3000 {
        let mut text = good.clone();
        for _ in 0..1 + random(3) {
            let place = random(text.len());
            match random(3) {
                0 => text[place] = b"0129-\"{}[],:"[random(12)],
                1 => drop(text.remove(place)),
                _ => text.insert(place, b'9'),
            }
        }
        let text = String::from_utf8_lossy(&text);
        let bytes = image(&header(version1::MAGIC, 0, 1, &text), &[]);
        if let Ok(found) = read(&bytes) {
            assert!(found.segment.offset < bytes.len() as u64);
            assert!(found.slots.iter().all(|slot| slot.size() <= LARGEST_AREA));
        }
    }
}
