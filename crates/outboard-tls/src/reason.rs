// SPDX-License-Identifier: MIT
//! Why TLS ends a connection, in words that name the certificate.

use rustls::{AlertDescription, CertificateError, Error};
use std::io;
use std::path::PathBuf;

/// The side of a connection that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsSide {
    Client,
    Server,
}

/// Our side, and our files.
#[derive(Clone, Debug)]
pub(crate) struct OwnEnd {
    pub(crate) side: TlsSide,
    pub(crate) certificate: PathBuf,
    pub(crate) authority: PathBuf,
}

const OTHER_AUTHORITY: &str = "another authority has made it";
const EXPIRED: &str = "it has expired";
const TOO_EARLY: &str = "it is not valid yet: compare the clocks of both hosts";
const OTHER_PURPOSE: &str = "it is made for the other side";

/// Whether a further attempt would fail, too. A server that ends meanwhile refuses nothing.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let of_tls: Option<&Error> = error.get_ref().and_then(|error| error.downcast_ref());
    of_tls.is_some() || error.kind() == io::ErrorKind::TimedOut
}

impl OwnEnd {
    fn peer(&self) -> &'static str {
        match self.side {
            TlsSide::Client => "server",
            TlsSide::Server => "client",
        }
    }

    /// The reason that an error of a connection is.
    pub(crate) fn reason(&self, error: &io::Error) -> String {
        let of_tls = error.get_ref().and_then(|error| error.downcast_ref());
        let (peer, authority) = (self.peer(), self.authority.display());
        match of_tls {
            Some(Error::InvalidCertificate(why)) => format!(
                "the certificate of the {peer} is not good for {authority}: {}",
                of_certificate(why)
            ),
            Some(Error::NoCertificatesPresented) => {
                format!("the {peer} has no certificate: it needs one of the authority {authority}")
            }
            Some(Error::AlertReceived(alert)) => format!(
                "the {peer} refuses the certificate {}: {}",
                self.certificate.display(),
                of_alert(*alert)
            ),
            Some(error) => format!("no TLS with the {peer}: {error}"),
            None if error.kind() == io::ErrorKind::TimedOut => {
                format!("the {peer} has not proved in time who it is")
            }
            None => format!("the connection to the {peer} is lost: {error}"),
        }
    }
}

fn of_certificate(why: &CertificateError) -> String {
    let text = match why {
        // Authorities that are made alike have one name and different keys.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => OTHER_AUTHORITY,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => EXPIRED,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TOO_EARLY,
        CertificateError::InvalidPurpose
        | CertificateError::InvalidPurposeContext { .. }
        | CertificateError::NotValidForName
        | CertificateError::NotValidForNameContext { .. } => OTHER_PURPOSE,
        other => return other.to_string(),
    };
    text.to_owned()
}

/// The same, as the other side has told it.
fn of_alert(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => OTHER_AUTHORITY,
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
        AlertDescription::UnsupportedCertificate => OTHER_PURPOSE,
        AlertDescription::CertificateRequired => "it was not sent",
        other => return format!("TLS alert {other:?}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(side: TlsSide, error: Error) -> String {
        let end = OwnEnd {
            side,
            certificate: "keys/own.pem".into(),
            authority: "keys/authority.pem".into(),
        };
        end.reason(&io::Error::other(error))
    }

    #[test]
    fn a_reason_names_the_certificate() {
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        assert_eq!(
            reason(TlsSide::Client, expired),
            "the certificate of the server is not good for keys/authority.pem: it has expired"
        );
        let alert = Error::AlertReceived(AlertDescription::UnknownCA);
        assert_eq!(
            reason(TlsSide::Server, alert),
            "the client refuses the certificate keys/own.pem: another authority has made it"
        );
        let none = reason(TlsSide::Server, Error::NoCertificatesPresented);
        assert!(none.starts_with("the client has no certificate"), "{none}");
    }
}
