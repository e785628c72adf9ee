// SPDX-License-Identifier: MIT
//! The address of a server.
//!
//! | URL | is |
//! |---|---|
//! | `unix:PATH` | a socket of this host |
//! | `tcp:HOST:PORT,token=FILE` | TCP; the file has a secret that both sides know |
//! | `tls:HOST:PORT,certificates=DIRECTORY` | TLS; both sides have certificates of one authority |
//!
//! For a server, `user=USER[:GROUP]` follows, in numbers: whom clients of the network are inside.
//! Without it they are 65534, who has no rights beyond those that everybody has.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The user whom clients of a network are, unless the URL says otherwise.
pub const NETWORK_USER: u32 = 65534;

/// See above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerUrl {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port of TCP.
    Network(NetworkUrl),
}

/// A port of TCP, and how the two sides prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkUrl {
    /// HOST:PORT.
    pub place: String,
    /// The proof.
    pub proof: NetworkProof,
    /// User and group of clients inside.
    pub user: (u32, u32),
}

/// How the two sides of a connection prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkProof {
    /// By a secret in a file, which the client sends. Nothing is encrypted.
    Token(PathBuf),
    /// By certificates in a directory.
    Certificates(PathBuf),
}

/// Whether a word is a URL.
pub fn is_url(text: &OsStr) -> bool {
    let schemes: [&[u8]; 3] = [b"unix:", b"tcp:", b"tls:"];
    let bytes = text.as_bytes();
    schemes.iter().any(|scheme| bytes.starts_with(scheme))
}

/// Two numbers; the second is the first if there is none.
fn numbers(text: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (user, group) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        // The last number means none.
        let number = text.parse().ok().filter(|&number| number != u32::MAX);
        number.filter(|_| is_number)
    };
    Some((number(user)?, number(group)?))
}

fn is_place(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

impl NetworkUrl {
    /// Reads the text after the scheme. `wanted`: the name of the file with the proof.
    fn parse(
        text: &[u8],
        wanted: &str,
        proof: impl Fn(PathBuf) -> NetworkProof,
    ) -> Result<Self, String> {
        let mut parts = text.split(|&byte| byte == b',');
        let place = parts
            .next()
            .and_then(|place| std::str::from_utf8(place).ok());
        let place = place.filter(|place| is_place(place));
        let place = place.ok_or("HOST:PORT follows, as in tls:127.0.0.1:7000")?;
        let (mut file, mut user) = (None, (NETWORK_USER, NETWORK_USER));
        for part in parts {
            let equals = part.iter().position(|&byte| byte == b'=');
            let (name, value) = part.split_at(equals.unwrap_or(part.len()));
            match (name, value.get(1..)) {
                (b"user", Some(value)) => {
                    user = numbers(value).ok_or("user= has numbers: USER or USER:GROUP")?;
                }
                (name, Some(value)) if name == wanted.as_bytes() && !value.is_empty() => {
                    file = Some(proof(path(value)));
                }
                _ => {
                    let part = String::from_utf8_lossy(part);
                    return Err(format!("{part:?} is none of {wanted}=PATH and user=USER"));
                }
            }
        }
        Ok(Self {
            place: place.to_owned(),
            proof: file.ok_or_else(|| format!("{wanted}=PATH is missing"))?,
            user,
        })
    }
}

impl ServerUrl {
    /// Reads a URL. The error is the reason.
    pub fn parse(text: OsString) -> Result<Self, String> {
        let bytes = text.into_vec();
        if let Some(name) = bytes.strip_prefix(b"unix:") {
            return match name {
                b"" => Err("a path follows unix:, as in unix:/run/lab/kernel".to_owned()),
                name => Ok(Self::Unix(path(name))),
            };
        }
        let tcp = bytes.strip_prefix(b"tcp:");
        let tls = bytes.strip_prefix(b"tls:");
        let network = match (tcp, tls) {
            (Some(text), _) => NetworkUrl::parse(text, "token", NetworkProof::Token),
            (_, Some(text)) => NetworkUrl::parse(text, "certificates", NetworkProof::Certificates),
            _ => Err("a server has a URL such as unix:/run/lab/kernel".to_owned()),
        };
        network.map(Self::Network)
    }
}

/// Without the proof, and whom clients are.
impl Display for ServerUrl {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Network(url) => match url.proof {
                NetworkProof::Token(_) => write!(f, "tcp:{}", url.place),
                NetworkProof::Certificates(_) => write!(f, "tls:{}", url.place),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServerUrl, String> {
        ServerUrl::parse(text.into())
    }

    fn network(place: &str, proof: NetworkProof, user: (u32, u32)) -> ServerUrl {
        let place = place.to_owned();
        ServerUrl::Network(NetworkUrl { place, proof, user })
    }

    #[test]
    fn urls_are_read() {
        let nobody = (NETWORK_USER, NETWORK_USER);
        assert_eq!(parse("unix:/a:b,c"), Ok(ServerUrl::Unix("/a:b,c".into())));
        let token = || NetworkProof::Token("/t=1".into());
        let url = parse("tcp:[::1]:7000,token=/t=1").unwrap();
        assert_eq!(url, network("[::1]:7000", token(), nobody));
        assert_eq!(url.to_string(), "tcp:[::1]:7000");
        let keys = || NetworkProof::Certificates("keys".into());
        let url = parse("tls:host:1,certificates=keys,user=0").unwrap();
        assert_eq!(url, network("host:1", keys(), (0, 0)));
        let url = parse("tls:host:1,user=5:6,certificates=keys").unwrap();
        assert_eq!(url, network("host:1", keys(), (5, 6)));
        assert!(is_url("tcp:".as_ref()) && !is_url("./unix:a".as_ref()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = [
            ("", "such as"),
            ("/a", "such as"),
            ("unix:", "a path"),
            ("tcp:1.2.3.4", "HOST:PORT"),
            ("tcp::5,token=a", "HOST:PORT"),
            ("tcp:a:65536,token=a", "HOST:PORT"),
            ("tcp:a:1", "token=PATH is missing"),
            ("tls:a:1,token=a", "token=a"),
            ("tls:a:1,certificates=", "certificates="),
            ("tcp:a:1,token=a,user=root", "numbers"),
            ("tcp:a:1,token=a,user=4294967295", "numbers"),
            ("tcp:a:1,token=a,user=1:", "numbers"),
            ("tcp:a:1,token=a,user", "user"),
        ];
        for (text, reason) in wrong {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
