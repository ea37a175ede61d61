//! TLS: how a connection to the database is made safe: rustls on ring, as everywhere else in the program. The
//! certificate and the name in it are always checked, whatever the address says beside that.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// What PostgreSQL 17 and later want to hear where TLS comes first.
const ALPN: &[u8] = b"postgresql";

/// Makes connections safe.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts whom the machine trusts, or those in a file.
    pub(super) fn new(roots: Option<&Path>) -> Result<Self, String> {
        let mut config = match roots {
            None => ClientConfig::with_platform_verifier().map_err(|error| error.to_string())?,
            Some(path) => {
                let mut trusted = rustls::RootCertStore::empty();
                let told = |error: &dyn std::fmt::Display| format!("`{}`: {error}", path.display());
                for certificate in
                    CertificateDer::pem_file_iter(path).map_err(|error| told(&error))?
                {
                    let certificate = certificate.map_err(|error| told(&error))?;
                    trusted.add(certificate).map_err(|error| told(&error))?;
                }
                ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { config: Arc::new(config) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Safe<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, io::Error> {
        // Of a socket in a directory there is no name; nothing is encrypted there.
        let name = ServerName::try_from(domain.to_owned());
        Ok(Handshake { name: name.ok(), connector: TlsConnector::from(Arc::clone(&self.config)) })
    }
}

/// One handshake to come.
pub(super) struct Handshake {
    name: Option<ServerName<'static>>,
    connector: TlsConnector,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Safe<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Safe<S>, io::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name =
                self.name.ok_or_else(|| io::Error::other("the host has no name to check"))?;
            Ok(Safe(Box::new(self.connector.connect(name, stream).await?)))
        })
    }
}

/// A connection that is safe.
pub(super) struct Safe<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Safe<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate is checked by its chain and its name; it is not bound to the password.
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Safe<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Safe<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
