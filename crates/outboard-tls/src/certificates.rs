// SPDX-License-Identifier: MIT
//! An authority of one's own, with a certificate for a server and one for its clients.

use crate::identity::SERVER_NAME;
use graviola::signing::eddsa::Ed25519SigningKey;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyIdMethod, KeyUsagePurpose, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey,
    PKCS_ED25519,
};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a serial number. They are random, and unique by that.
const SERIAL_BYTES: usize = 16;
/// Before the 32 bytes of a key: version 0, Ed25519, and the lengths.
const KEY_HEAD: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];

/// A key that was made here.
struct OwnKey {
    key: Ed25519SigningKey,
    public: [u8; 32],
}

fn failed(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("cannot make a certificate: {error:?}"))
}

impl OwnKey {
    fn new() -> io::Result<Self> {
        let key = Ed25519SigningKey::generate().map_err(failed)?;
        let public = key.public_key().as_bytes();
        Ok(Self { key, public })
    }

    /// In version 1 of PKCS #8 (RFC 8410, section 7): OpenSSL 3.0 reads no other.
    fn pem(&self) -> String {
        let bytes = [&KEY_HEAD[..], &self.key.as_seed()].concat();
        pem::encode(&pem::Pem::new("PRIVATE KEY", bytes))
    }
}

impl PublicKeyData for OwnKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for OwnKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.key.sign(message).to_vec())
    }
}

fn random<const LENGTH: usize>() -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    graviola::random::fill(&mut bytes).map_err(failed)?;
    // A serial number is positive.
    bytes[0] &= 0x7f;
    Ok(bytes)
}

/// The parameters of all certificates. `names`: those for which one is good.
fn parameters(common: &str, names: &[&str]) -> io::Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut parameters = CertificateParams::new(names).map_err(failed)?;
    parameters
        .distinguished_name
        .push(DnType::CommonName, common);
    parameters.serial_number = Some(SerialNumber::from(random::<SERIAL_BYTES>()?.to_vec()));
    parameters.key_identifier_method = KeyIdMethod::PreSpecified(random::<20>()?.to_vec());
    Ok(parameters)
}

/// Writes a new file. Only its owner may read a key.
fn write(directory: &Path, name: &str, contents: &str) -> io::Result<()> {
    let mode = if name.ends_with("-key.pem") {
        0o600
    } else {
        0o644
    };
    let path = directory.join(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&path)
        .and_then(|mut file| file.write_all(contents.as_bytes()));
    written.map_err(|error| {
        let text = format!("{}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

/// Makes an authority, a certificate for a server and one for clients, with their keys, in a
/// directory, which is made if there is none: `authority.pem`, `server.pem`, `server-key.pem`,
/// `client.pem`, `client-key.pem`. Nothing is replaced. The key of the authority is not kept:
/// whoever shall lose its access gets it taken by a new set.
pub fn make_certificates(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let mut authority = parameters("outboard authority", &[])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = OwnKey::new()?;
    let certificate = authority.self_signed(&authority_key).map_err(failed)?;
    write(directory, "authority.pem", &certificate.pem())?;
    let issuer = Issuer::new(authority, authority_key);
    let ends = [
        ("server", SERVER_NAME, ExtendedKeyUsagePurpose::ServerAuth),
        (
            "client",
            "outboard-client",
            ExtendedKeyUsagePurpose::ClientAuth,
        ),
    ];
    for (file, name, usage) in ends {
        let mut parameters = parameters(name, &[name])?;
        parameters.extended_key_usages = vec![usage];
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = OwnKey::new()?;
        let certificate = parameters.signed_by(&key, &issuer).map_err(failed)?;
        write(directory, &format!("{file}.pem"), &certificate.pem())?;
        write(directory, &format!("{file}-key.pem"), &key.pem())?;
    }
    Ok(())
}
