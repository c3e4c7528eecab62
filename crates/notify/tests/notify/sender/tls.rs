//! One delivery attempt over TLS: endpoints whose certificates hold, and endpoints that fail in every way the
//! sender has words for.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, KeyPair, NameConstraints, SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use settle_notify::sender::{Attempt, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::receiver::Receiver;
use super::{notification, open_policy, response, sender};

const OWN_OF_AN_AUTHORITY: &str = "TLS: the certificate is a certification authority's own, not a server's; \
                                   self-signed ones often are";

type Issuer = CertifiedIssuer<'static, KeyPair>;
type Change = fn(&mut CertificateParams);

/// A certification authority for tests, and receivers with certificates of its own making.
pub struct Authority(Issuer);

impl Authority {
    pub fn new() -> Authority {
        let params = authority_params("root");
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn root(&self) -> String {
        self.0.pem()
    }

    /// An authority below this one.
    fn below(&self, change: impl FnOnce(&mut CertificateParams)) -> Issuer {
        let mut params = authority_params("intermediate");
        change(&mut params);
        CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &self.0).unwrap()
    }

    pub async fn receiver(&self, change: impl FnOnce(&mut CertificateParams)) -> Receiver {
        let (certificate, key) = issued(&self.0, change);
        serve(config(vec![certificate], key)).await
    }
}

/// Each authority has a name of its own, by which a certificate names its issuer.
fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A certificate for `merchant.example`, changed as the test says, and its key.
fn issued(
    issuer: &Issuer,
    change: impl FnOnce(&mut CertificateParams),
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let mut params = CertificateParams::new(vec!["merchant.example".to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

fn config(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_no_client_auth().with_single_cert(chain, key).unwrap()
}

async fn serve(config: ServerConfig) -> Receiver {
    Receiver::start(response("200 OK", ""), Some(TlsAcceptor::from(Arc::new(config)))).await
}

/// An endpoint that answers a first message with these bytes, whatever it was, and closes.
async fn babbler(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = [0; 16_384];
        assert!(stream.read(&mut heard).await.unwrap() > 0);
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        // Bytes left unread would reset the connection, and the answer could be lost with it.
        while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    });
    address
}

async fn attempt(roots: &str, host: &str, port: u16) -> Attempt {
    let url = format!("https://{host}:{port}/hook");
    sender(open_policy(), roots).attempt(&url, notification()).await.unwrap()
}

/// Checks what the merchant reads of an attempt.
async fn check(roots: &str, receiver: &Receiver, words: &str) {
    let attempt = attempt(roots, "merchant.example", receiver.address.port()).await;
    assert_eq!(attempt.fault.map(|fault| fault.to_string()).as_deref(), Some(words));
    assert_eq!(attempt.response_status, None);
    assert_eq!(receiver.requests(), Vec::<String>::new(), "nothing was sent: {words}");
}

#[tokio::test]
async fn tls_with_a_trusted_certificate_is_delivered() {
    let authority = Authority::new();
    let receiver = authority.receiver(|_| {}).await;
    let attempt = attempt(&authority.root(), "merchant.example", receiver.address.port()).await;
    assert!(attempt.is_delivered(), "{attempt:?}");
    assert!(receiver.requests()[0].contains(&format!("host: merchant.example:{}", receiver.address.port())));
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_is_refused_in_words() {
    let authority = Authority::new();
    let cases: [(Change, &str); 5] = [
        (
            |params| params.not_after = date_time_ymd(2020, 1, 31),
            "TLS: the certificate expired on 2020-01-31 at 00:00 UTC",
        ),
        (
            |params| params.not_before = date_time_ymd(2999, 12, 1),
            "TLS: the certificate is not valid before 2999-12-01 at 00:00 UTC",
        ),
        (
            |params| *params = CertificateParams::new(vec!["other.example".to_owned()]).unwrap(),
            "TLS: the certificate is not valid for merchant.example",
        ),
        (
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            "TLS: the certificate is not meant for servers",
        ),
        (|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), OWN_OF_AN_AUTHORITY),
    ];
    for (change, words) in cases {
        check(&authority.root(), &authority.receiver(change).await, words).await;
    }
}

/// What `openssl req -x509` makes.
#[tokio::test]
async fn a_self_signed_certificate_is_refused_in_words() {
    let authority = Authority::new();
    let mut params = authority_params("self");
    params.subject_alt_names = vec![SanType::DnsName("merchant.example".try_into().unwrap())];
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let receiver =
        serve(config(vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())).await;
    check(&authority.root(), &receiver, OWN_OF_AN_AUTHORITY).await;
}

#[tokio::test]
async fn a_chain_that_does_not_hold_is_refused_in_words() {
    let authority = Authority::new();
    let unknown = "TLS: the certificate's issuer is not trusted, or the endpoint leaves out an intermediate \
                   certificate";
    check("", &authority.receiver(|_| {}).await, unknown).await;

    // The endpoint shows its own certificate alone, and then the one above it too.
    let middle = authority.below(|_| {});
    let (certificate, key) = issued(&middle, |_| {});
    check(&authority.root(), &serve(config(vec![certificate.clone()], key.clone_key())).await, unknown).await;
    let whole = serve(config(vec![certificate, middle.der().clone()], key)).await;
    let attempt = attempt(&authority.root(), "merchant.example", whole.address.port()).await;
    assert!(attempt.is_delivered(), "{attempt:?}");

    let constraints = |params: &mut CertificateParams| {
        let permitted_subtrees = vec![GeneralSubtree::DnsName("elsewhere.example".to_owned())];
        params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
    };
    let no_authority = |params: &mut CertificateParams| params.is_ca = IsCa::ExplicitNoCa;
    for (middle, words) in [
        (authority.below(constraints), "TLS: the certificate's issuer may not issue for this name"),
        (authority.below(no_authority), "TLS: the certificate's issuer is not a certification authority"),
    ] {
        let (certificate, key) = issued(&middle, |_| {});
        let receiver = serve(config(vec![certificate, middle.der().clone()], key)).await;
        check(&authority.root(), &receiver, words).await;
    }

    let short = authority.below(|params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    let params = authority_params("below");
    let below = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &short).unwrap();
    let (certificate, key) = issued(&below, |_| {});
    let chain = vec![certificate, below.der().clone(), short.der().clone()];
    let words = "TLS: the certificate's issuer may not issue so far below its own authority";
    check(&authority.root(), &serve(config(chain, key)).await, words).await;
}

#[tokio::test]
async fn an_endpoint_that_wants_a_client_certificate_is_told_apart() {
    let authority = Authority::new();
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let versions: [&'static SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];
    for version in versions {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
        let (certificate, key) = issued(&authority.0, |_| {});
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(builder.build().unwrap())
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let words = "TLS: the endpoint wants a client certificate, which this service does not have";
        check(&authority.root(), &serve(config).await, words).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_fails_the_handshake_is_told_in_words() {
    // A fatal alert has 21 for its kind, a version, its length, 2 for fatal, and its number.
    let cases: [(&[u8], &str); 9] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the endpoint answers with something that is not TLS"),
        (b"220 smtp.example ESMTP\r\n", "the endpoint answers with something that is not TLS"),
        (b"", "the endpoint closed the connection during the handshake"),
        (&[21, 3, 3, 0, 2, 2, 70], "the endpoint supports neither TLS 1.2 nor TLS 1.3"),
        (&SERVER_HELLO_OF_TLS_1_1, "the endpoint supports neither TLS 1.2 nor TLS 1.3"),
        (
            &[21, 3, 3, 0, 2, 2, 40],
            "the endpoint refuses the handshake: no kind of encryption in common, or it wants a client \
             certificate, which this service does not have",
        ),
        (&[21, 3, 3, 0, 2, 2, 112], "the endpoint does not serve the host name of the URL"),
        (&[21, 3, 3, 0, 2, 2, 80], "the endpoint met an internal error of its own"),
        (&[21, 3, 3, 0, 2, 2, 120], "the endpoint ended the connection with alert 120"),
    ];
    for (bytes, words) in cases {
        let attempt = attempt("", "merchant.example", babbler(bytes).await.port()).await;
        assert_eq!(attempt.fault.map(|fault| fault.to_string()), Some(format!("TLS: {words}")), "{bytes:?}");
        assert_eq!(attempt.response_status, None);
    }
}

/// A handshake message (22) with a server's hello (2): version 1.1, 32 random bytes, no session, a cipher.
const SERVER_HELLO_OF_TLS_1_1: [u8; 47] = {
    let mut bytes = [7; 47];
    let head = [22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2];
    let mut index = 0;
    while index < head.len() {
        bytes[index] = head[index];
        index += 1;
    }
    [bytes[43], bytes[44], bytes[45], bytes[46]] = [0, 0xc0, 0x13, 0];
    bytes
};
