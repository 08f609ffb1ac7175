//! The server: an address, its connections, and a quiet end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::Handle;
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bodies::Room;
use crate::limits::Limits;
use crate::log::PredictionLog;
use crate::open_files;
use crate::repository::Repository;
use crate::routes::{App, LOOK_EVERY, router};
use crate::security::{Neighbours, Token};

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or number; the loopback interface unless something else is asked for.
    pub host: String,
    /// 0 is any that is free.
    pub port: u16,
}

/// A certificate chain and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Chain, the server's own first.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// A server that is bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Tls>,
    app: Arc<App>,
}

/// How the server behaves beside its models.
#[derive(Debug, Default)]
pub struct Settings {
    /// Asked of every request but those for health and the page.
    pub token: Option<Token>,
    /// Where answers are written.
    pub log: Option<PredictionLog>,
    /// Whether models may be loaded and unloaded by request.
    pub control: bool,
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// When it is taken, or not this machine's.
    pub fn bind(
        address: &Address,
        tls: Option<Tls>,
        repository: Repository,
        limits: Limits,
        settings: Settings,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((address.host.as_str(), address.port))?;
        listener.set_nonblocking(true)?;
        let neighbours = Neighbours::of(&address.host, &listener.local_addr()?);
        let room = Room::new(limits.body);
        let Settings { token, log, control } = settings;
        let (ready, requests) = (AtomicBool::new(true), AtomicU64::new(0));
        let app = App { repository, limits, token, neighbours, log, control, ready, room, requests };
        Ok(Self { listener, tls, app: Arc::new(app) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is raised: then new requests are refused, those under way are finished, in a bounded time.
    ///
    /// # Errors
    /// When the certificate cannot be used, or the threads cannot be started.
    pub fn run(self, stop: &'static AtomicBool) -> io::Result<()> {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let outcome = runtime.block_on(self.serve(stop));
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    }

    async fn serve(self, stop: &'static AtomicBool) -> io::Result<()> {
        let Self { listener, tls, app } = self;
        let handle = Handle::new();
        tokio::spawn(end_when_asked(stop, handle.clone(), app.clone()));
        tokio::spawn(look_for_changes(app.clone()));
        let service = router(app.clone()).into_make_service();
        let counted = Counted(Arc::new(Semaphore::new(open_files::connections(app.limits.connections))));
        let server = axum_server::from_tcp(listener)?.handle(handle);
        match tls {
            None => within(server.acceptor(counted), &app.limits).serve(service).await,
            Some(tls) => {
                let config = rustls_config(&tls)?;
                let acceptor = RustlsAcceptor::new(config).handshake_timeout(app.limits.header_time).acceptor(counted);
                within(server.acceptor(acceptor), &app.limits).serve(service).await
            }
        }
    }
}

/// Sets the bounds of a connection. The acceptor must stand before: setting it forgets that only HTTP/1 is spoken, and where
/// the version is read first, a connection that says nothing is never ended.
fn within<A>(server: axum_server::Server<SocketAddr, A>, limits: &Limits) -> axum_server::Server<SocketAddr, A> {
    let mut server = server.http1_only();
    let mut http = server.http_builder().http1();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_time).max_buf_size(limits.header);
    server
}

fn rustls_config(tls: &Tls) -> io::Result<RustlsConfig> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate).map_err(|error| wrong(&tls.certificate, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&tls.certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| wrong(&tls.key, &error))?;
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(|error| wrong(&tls.certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(RustlsConfig::from_config(Arc::new(config)))
}

async fn end_when_asked(stop: &'static AtomicBool, handle: Handle<SocketAddr>, app: Arc<App>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    app.ready.store(false, Ordering::Relaxed);
    handle.graceful_shutdown(Some(app.limits.shutdown));
}

async fn look_for_changes(app: Arc<App>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let looking = app.clone();
        let Ok(changed) = tokio::task::spawn_blocking(move || looking.repository.refresh()).await else { continue };
        for (name, outcome) in changed {
            match outcome {
                Ok(()) => tracing::warn!(target: "serve", "{name}: its folder has changed, the new model is served"),
                Err(why) => {
                    tracing::warn!(target: "serve", "{name}: its folder has changed, the old model is served on: {why}");
                }
            }
        }
    }
}

/// Takes so many connections and closes others.
#[derive(Clone, Debug)]
struct Counted(Arc<Semaphore>);

impl<S> Accept<TcpStream, S> for Counted {
    type Stream = TcpStream;
    type Service = Held<S>;
    type Future = std::future::Ready<io::Result<(TcpStream, Held<S>)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let permit = self.0.clone().try_acquire_owned().map_err(io::Error::other);
        let taken = permit.and_then(|permit| {
            stream.set_nodelay(true).map(|()| (stream, Held { service, _permit: Arc::new(permit) }))
        });
        std::future::ready(taken)
    }
}

/// A connection's service, with its place among the connections.
#[derive(Clone, Debug)]
struct Held<S> {
    service: S,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl<S: tower::Service<R>, R> tower::Service<R> for Held<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.service.call(request)
    }
}
