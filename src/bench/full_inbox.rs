//! W4: a full inbox. Requests by the ten thousand are open; how long their page takes to open, and how
//! long the inbox of somebody takes who has three of their own beside all those.

use std::path::Path;

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};

use crate::bench::clients::{self, Client};
use crate::bench::clock::Stopwatch;
use crate::bench::figures::{Samples, Spread};
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server, make_key};
use crate::bench::workflows::CYCLE;
use crate::bench::{BenchError, Progress, many_waiting};
use crate::wire::v1 as pb;

/// How often each is opened.
const OPENED: u32 = 50;
/// Requests of the one who has few.
const OWN: u32 = 3;
/// Rows of a page, as the console's has them.
const ROWS: i32 = 50;

/// What came of one number of requests.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct W4 {
    /// Requests that are open.
    pub requests: u32,
    /// The console's inbox, whole, as an admin sees it.
    pub page: Spread,
    /// A page of it over gRPC.
    pub listing: Spread,
    /// The first listing of somebody with three requests, after a restart.
    pub own_first_ms: f64,
    /// Their later ones.
    pub own: Spread,
}

/// Measures every number of requests on a store of its own.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<W4>, BenchError> {
    let mut measured = Vec::new();
    for &requests in &options.sessions {
        progress(&format!("w4: {requests} open requests"));
        measured.push(one(scratch, requests, progress).await?);
    }
    Ok(measured)
}

async fn one(scratch: &Scratch, requests: u32, progress: Progress<'_>) -> Result<W4, BenchError> {
    let data = scratch.fresh_data("w4")?;
    let server = Server::orchestrator(scratch, &data).await?;
    many_waiting::create(std::slice::from_ref(&server), requests, progress).await?;
    let mut pages = Samples::default();
    for _ in 0..OPENED {
        let watch = Stopwatch::start();
        page(&server.address).await.map_err(BenchError::io("open the console's inbox"))?;
        pages.add(watch.elapsed());
    }
    let mut caller = clients::dial(&server.address, 1).await?.remove(0);
    let listing = listings(&mut caller, None).await?;
    drop(server);
    let (own_first_ms, own) = others(scratch, &data).await?;
    Ok(W4 { requests, page: pages.spread(), listing, own_first_ms, own })
}

/// Somebody else, by a key of their own, who has three requests beside all those.
async fn others(scratch: &Scratch, data: &Path) -> Result<(f64, Spread), BenchError> {
    let secret = make_key(data, "somebody")?;
    let bearer: MetadataValue<Ascii> = format!("Bearer {secret}")
        .parse()
        .map_err(|_| BenchError::Unexpected("make a key that can be sent"))?;
    let server = Server::orchestrator(scratch, data).await?;
    let mut caller = clients::dial(&server.address, 1).await?.remove(0);
    for _ in 0..OWN {
        let request = pb::RunWorkflowRequest {
            workflow_id: CYCLE.into(),
            input: Some(clients::words("Tell Ada.".into())),
            ..pb::RunWorkflowRequest::default()
        };
        let mut stream = caller.run_workflow(shown(request, Some(&bearer))).await?.into_inner();
        while stream.message().await?.is_some() {}
    }
    let watch = Stopwatch::start();
    let found = list(&mut caller, Some(&bearer)).await?;
    let first = watch.elapsed().as_secs_f64() * 1_000.0;
    if found != OWN as usize {
        return Err(BenchError::Unexpected("list somebody's own requests, and no others"));
    }
    Ok((first, listings(&mut caller, Some(&bearer)).await?))
}

async fn listings(
    caller: &mut Client,
    bearer: Option<&MetadataValue<Ascii>>,
) -> Result<Spread, BenchError> {
    let mut samples = Samples::default();
    for _ in 0..OPENED {
        let watch = Stopwatch::start();
        list(caller, bearer).await?;
        samples.add(watch.elapsed());
    }
    Ok(samples.spread())
}

async fn list(
    caller: &mut Client,
    bearer: Option<&MetadataValue<Ascii>>,
) -> Result<usize, BenchError> {
    let request = pb::ListRequestsRequest { page_size: ROWS, ..Default::default() };
    Ok(caller.list_requests(shown(request, bearer)).await?.into_inner().requests.len())
}

fn shown<T>(message: T, bearer: Option<&MetadataValue<Ascii>>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(bearer) = bearer {
        request.metadata_mut().insert("authorization", bearer.clone());
    }
    request
}

/// The console's inbox, as a browser gets it.
async fn page(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let head =
        format!("GET /console/inbox HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut body = Vec::new();
    stream.read_to_end(&mut body).await?;
    let is_whole = body.starts_with(b"HTTP/1.1 200") && body.trim_ascii_end().ends_with(b"</html>");
    let error = || std::io::Error::other("the inbox was not shown");
    if is_whole { Ok(()) } else { Err(error()) }
}
