//! Says in plain words why TLS failed, so that a merchant knows what to mend.
//!
//! The library's own words name its types (`CaUsedAsEndEntity`) and quote what the endpoint sent. Ours quote
//! nothing of it but dates.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use settle_domain::time::Timestamp;

/// The endpoint, or something on the way to it, went away before TLS was agreed on.
pub(super) const HANDSHAKE_CUT: &str = "the endpoint closed the connection during the handshake";

const HANDSHAKE_FAILED: &str = "the handshake failed";
const RULES_BROKEN: &str = "the endpoint does not follow the rules of TLS";
const TOO_OLD: &str = "the endpoint supports neither TLS 1.2 nor TLS 1.3";

/// Why TLS failed, in a few words.
pub(super) fn words(fault: &rustls::Error) -> String {
    use rustls::Error;
    let words = match fault {
        Error::InvalidCertificate(fault) => return certificate(fault),
        Error::AlertReceived(alert) => return refused(*alert),
        Error::InvalidMessage(
            // The head of the very first message is already wrong: it is plain HTTP, or another protocol.
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::InvalidEmptyPayload
            | InvalidMessage::MessageTooLarge,
        ) => "the endpoint answers with something that is not TLS",
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_)
        | Error::PeerSentOversizedRecord => RULES_BROKEN,
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => TOO_OLD,
        Error::PeerIncompatible(_) => "the endpoint and this service have no kind of encryption in common",
        Error::NoCertificatesPresented => "the endpoint has no certificate",
        Error::DecryptError => "what the endpoint sent cannot be decrypted",
        // What is left concerns servers, or features that the sender does not use.
        _ => HANDSHAKE_FAILED,
    };
    words.to_owned()
}

/// Why the endpoint ended the connection, as it told us.
fn refused(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    let words = match alert {
        Alert::ProtocolVersion | Alert::InappropriateFallback => TOO_OLD,
        Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            "the endpoint refuses the handshake: no kind of encryption in common, or it wants a client \
             certificate, which this service does not have"
        }
        Alert::UnrecognisedName => "the endpoint does not serve the host name of the URL",
        // The sender shows no certificate, so an endpoint that complains about one misses it.
        Alert::CertificateRequired
        | Alert::NoCertificate
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => "the endpoint wants a client certificate, which this service does not have",
        Alert::InternalError => "the endpoint met an internal error of its own",
        other => return format!("the endpoint ended the connection with alert {}", u8::from(other)),
    };
    words.to_owned()
}

/// Why the endpoint's certificate is refused.
fn certificate(fault: &CertificateError) -> String {
    let words = match fault {
        CertificateError::ExpiredContext { not_after, .. } => {
            return format!("the certificate expired on {}", date(*not_after));
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            return format!("the certificate is not valid before {}", date(*not_before));
        }
        CertificateError::NotValidForNameContext { expected, .. } => {
            return format!("the certificate is not valid for {}", expected.to_str());
        }
        // The library also says so of a certificate whose end is before its beginning.
        CertificateError::Expired => "the certificate has expired, or ends before it begins",
        CertificateError::NotValidYet => "the certificate is not valid yet",
        CertificateError::NotValidForName => "the certificate is not valid for the host name of the URL",
        CertificateError::Revoked => "the certificate has been revoked",
        CertificateError::UnknownIssuer => {
            "the certificate's issuer is not trusted, or the endpoint leaves out an intermediate certificate"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not meant for servers"
        }
        CertificateError::BadSignature => "a signature does not fit the certificate",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate is signed in a way that is not accepted"
        }
        CertificateError::BadEncoding => "the certificate cannot be read",
        CertificateError::Other(other) => chain(other.0.downcast_ref()),
        _ => "the certificate is not accepted",
    };
    words.to_owned()
}

/// What is wrong with the certificate or those above it, where rustls has no name for it.
fn chain(fault: Option<&webpki::Error>) -> &'static str {
    use webpki::Error;
    match fault {
        Some(Error::CaUsedAsEndEntity) => {
            "the certificate is a certification authority's own, not a server's; self-signed ones often are"
        }
        Some(Error::EndEntityUsedAsCa) => "the certificate's issuer is not a certification authority",
        Some(Error::NameConstraintViolation) => "the certificate's issuer may not issue for this name",
        Some(Error::PathLenConstraintViolated) => {
            "the certificate's issuer may not issue so far below its own authority"
        }
        Some(Error::UnsupportedCertVersion) => "the certificate is not of version 3",
        Some(Error::UnsupportedCriticalExtension) => {
            "the certificate has a critical extension that is not known"
        }
        Some(
            Error::MaximumNameConstraintComparisonsExceeded
            | Error::MaximumPathBuildCallsExceeded
            | Error::MaximumPathDepthExceeded
            | Error::MaximumSignatureChecksExceeded,
        ) => "the certificate's chain is too long",
        _ => "the certificate is malformed",
    }
}

/// To the minute: a certificate that ended an hour ago looks valid by its date.
fn date(time: UnixTime) -> String {
    let micros = i64::try_from(time.as_secs()).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    let time = Timestamp::from_micros(micros).to_string();
    let (day, clock) = time.split_once('T').unwrap_or((&time, ""));
    format!("{day} at {} UTC", clock.get(..5).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{Error, OtherError, PeerMisbehaved};
    use std::sync::Arc;

    /// Those that no endpoint of a test can provoke; the others are provoked.
    #[test]
    fn no_words_name_a_type_of_the_library() {
        let other = |fault: webpki::Error| {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(fault))))
        };
        for fault in [
            other(webpki::Error::MaximumSignatureChecksExceeded),
            other(webpki::Error::UnsupportedCertVersion),
            other(webpki::Error::UnsupportedCriticalExtension),
            other(webpki::Error::MalformedExtensions),
            Error::InvalidCertificate(CertificateError::Revoked),
            Error::InvalidCertificate(CertificateError::BadEncoding),
            Error::InvalidCertificate(CertificateError::BadSignature),
            Error::InvalidCertificate(CertificateError::Expired),
            Error::InvalidCertificate(CertificateError::UnknownRevocationStatus),
            Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare),
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
            Error::InvalidMessage(InvalidMessage::MissingData("CertificatePayload")),
            Error::NoCertificatesPresented,
            Error::DecryptError,
            Error::FailedToGetRandomBytes,
            Error::General("PayloadTooLarge".to_owned()),
        ] {
            let words = words(&fault);
            let has_a_name = |word: &str| word.chars().skip(1).any(char::is_uppercase) && word != "TLS";
            assert!(!words.split(|c: char| !c.is_alphanumeric()).any(has_a_name), "{words}");
            assert!(words.contains(' ') && !words.ends_with('.'), "{words}");
        }
    }
}
