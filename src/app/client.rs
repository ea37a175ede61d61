//! Client: how a command speaks to an orchestrator over gRPC, and the key it shows.
//!
//! The same client speaks to a remote server and to one inside this process; only the channel
//! beneath differs.

use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::app::AppError;
use crate::app::config::masked;
use crate::wire::v1::orchestrator_client::OrchestratorClient;

/// A whole conversation comes in one message; the kernel's bound on it fits well into this.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// A server that does not answer the dial in this time is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may say nothing before it is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(5);
/// What it has to say so: more than a machine takes that does much else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Speaks `holdpoint.v1.Orchestrator`.
pub type Client = OrchestratorClient<InterceptedService<Channel, Bearer>>;

/// Says with every call that a command makes it, and shows the API key, if there is one.
#[derive(Clone, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Bearer(********)" } else { "Bearer(none)" })
    }
}

impl Bearer {
    /// Shows `api_key`, or nothing.
    pub fn new(api_key: Option<&str>) -> Result<Self, AppError> {
        let Some(api_key) = api_key else { return Ok(Self(None)) };
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {api_key}").parse().map_err(|_| AppError::BadKey)?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// A client on `channel`.
pub fn over(channel: Channel, bearer: Bearer) -> Client {
    OrchestratorClient::with_interceptor(channel, bearer)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// How a server at `url` is spoken to.
pub(super) fn endpoint(url: &str) -> Result<Endpoint, AppError> {
    if url.starts_with("https://") {
        return Err(AppError::NoTls(masked(url)));
    }
    let endpoint =
        Endpoint::from_shared(url.to_owned()).map_err(|source| unreachable(url, source))?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
    Ok(endpoint.http2_keep_alive_interval(SILENCE).keep_alive_timeout(PATIENCE))
}

fn unreachable(url: &str, source: tonic::transport::Error) -> AppError {
    AppError::Unreachable { server: masked(url), source: Box::new(source) }
}

/// Dials the server at `url`.
pub async fn dial(url: &str, bearer: Bearer) -> Result<Client, AppError> {
    let channel = endpoint(url)?.connect().await.map_err(|source| unreachable(url, source))?;
    Ok(over(channel, bearer))
}
