//! TLS, with a certificate that was made for these tests alone (`tls/`, for `localhost`, until 2126).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fidgp_serve::server::Settings;
use fidgp_serve::{Limits, Tls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::running::Running;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/tls").join(name)
}

fn asked(server: &Running, trusted: bool) -> std::io::Result<String> {
    let mut roots = rustls::RootCertStore::empty();
    if trusted {
        roots.add(CertificateDer::from_pem_file(file("certificate.pem")).unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let session = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = rustls::StreamOwned::new(session, stream);
    stream.write_all(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn requests_may_be_encrypted() {
    let tls = Tls { certificate: file("certificate.pem"), key: file("key.pem") };
    let limits = Limits { header_time: Duration::from_millis(500), ..Limits::default() };
    let server = Running::start_with(limits, Settings::default(), Some(tls));
    assert!(asked(&server, true).unwrap().starts_with("HTTP/1.1 200"));
    assert!(asked(&server, false).is_err(), "a stranger's certificate is not the client's to trust");
    let plain = server.send_any(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n", Duration::from_secs(20));
    assert!(!plain.starts_with(b"HTTP/"), "it answers without encryption");
    assert!(server.send_any(b"", Duration::from_secs(20)).is_empty(), "a silent connection is ended");
    assert!(asked(&server, true).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_key_that_cannot_be_used_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    let tls = Tls { certificate: file("certificate.pem"), key: folder.path().join("key.pem") };
    let error = Running::try_tls(tls).unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
}
