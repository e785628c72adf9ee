// SPDX-License-Identifier: MIT
//! One side of a connection: its certificate and key, and the authority that vouches for the other
//! side. Only version 1.3 of TLS is spoken.

use crate::dialed::Dialed;
use crate::reason::{OwnEnd, TlsSide};
use crate::relay::relay;
use rustls::client::ClientConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ServerConnection, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt::Display;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name in the certificate of a server. An authority of one's own vouches for nothing else, so
/// certificates need no names of hosts.
pub const SERVER_NAME: &str = "outboard-server";

/// See above.
pub struct TlsIdentity {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authority: Arc<RootCertStore>,
    certificate_file: PathBuf,
    authority_file: PathBuf,
}

fn wrong(file: &Path, error: impl Display) -> io::Error {
    let text = format!("{}: {error}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// An identity that takes connections.
pub struct TlsServer {
    config: Arc<ServerConfig>,
    end: OwnEnd,
}

impl TlsServer {
    /// Speaks TLS as a server over this connection. The result carries the plain bytes; it ends if
    /// the client does not prove that it belongs to the authority. Does not block: a thread moves
    /// the bytes, until one of the two ends.
    pub fn accept(&self, socket: TcpStream) -> io::Result<UnixStream> {
        self.accepted(socket).map(|dialed| dialed.stream)
    }

    pub(crate) fn accepted(&self, socket: TcpStream) -> io::Result<Dialed> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map_err(of_tls)?;
        relay(connection.into(), socket, self.end.clone())
    }
}

fn of_tls(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Nobody but its owner may read a key.
fn check_private(file: &Path) -> io::Result<()> {
    let found = std::fs::metadata(file).map_err(|error| wrong(file, error))?;
    if found.permissions().mode() & 0o077 != 0 {
        return Err(wrong(file, "others may read the key: chmod 600 it"));
    }
    Ok(())
}

impl TlsIdentity {
    /// Reads the PEM files `authority.pem`, `NAME.pem` and `NAME-key.pem` of a directory. `name`:
    /// `server` or `client`, as [`make_certificates`](crate::make_certificates) names them.
    pub fn read(directory: &Path, name: &str) -> io::Result<Self> {
        let read = |file: &Path| {
            let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(file, error))?;
            let all: Result<Vec<_>, _> = found.collect();
            let all = all.map_err(|error| wrong(file, error))?;
            if all.is_empty() {
                return Err(wrong(file, "there is no certificate in it"));
            }
            Ok(all)
        };
        let authority_file = directory.join("authority.pem");
        let mut authority = RootCertStore::empty();
        for certificate in read(&authority_file)? {
            let added = authority.add(certificate);
            added.map_err(|error| wrong(&authority_file, error))?;
        }
        let key_file = directory.join(format!("{name}-key.pem"));
        check_private(&key_file)?;
        let key = PrivateKeyDer::from_pem_file(&key_file);
        let certificate_file = directory.join(format!("{name}.pem"));
        Ok(Self {
            certificates: read(&certificate_file)?,
            key: key.map_err(|error| wrong(&key_file, error))?,
            authority: Arc::new(authority),
            certificate_file,
            authority_file,
        })
    }

    fn end(&self, side: TlsSide) -> OwnEnd {
        OwnEnd {
            side,
            certificate: self.certificate_file.clone(),
            authority: self.authority_file.clone(),
        }
    }

    /// Prepares a server with this identity. An error if the key is not that of the certificate.
    pub fn server(&self) -> io::Result<TlsServer> {
        let provider = Arc::new(rustls_graviola::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::clone(&self.authority),
            provider.clone(),
        )
        .build()
        .map_err(of_tls)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(of_tls)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.certificates.clone(), self.key.clone_key())
            .map_err(of_tls)?;
        Ok(TlsServer {
            config: Arc::new(config),
            end: self.end(TlsSide::Server),
        })
    }

    /// Speaks TLS as a client over this connection, as [`TlsServer::accept`] does as a server.
    pub fn connect(&self, socket: TcpStream) -> io::Result<UnixStream> {
        self.dial(socket).map(|dialed| dialed.stream)
    }

    pub(crate) fn dial(&self, socket: TcpStream) -> io::Result<Dialed> {
        let provider = Arc::new(rustls_graviola::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(of_tls)?
            .with_root_certificates(Arc::clone(&self.authority))
            .with_client_auth_cert(self.certificates.clone(), self.key.clone_key())
            .map_err(of_tls)?;
        let name = ServerName::try_from(SERVER_NAME).map_err(of_tls)?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(of_tls)?;
        relay(connection.into(), socket, self.end(TlsSide::Client))
    }
}
