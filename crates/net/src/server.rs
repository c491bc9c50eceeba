//! Serves HTTP/1.1: an accept loop with limits and a graceful end.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::open_files;
use crate::sending::Sending;

/// What clients may use, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections, within [what open files allow](open_files::connections). More
    /// wait until one is closed.
    pub connections: usize,
    /// How long a client may take for the headers of a request, and be idle between two.
    pub header_timeout: Duration,
    /// How long a client may make the server wait before it reads on. It is disconnected after that,
    /// or if it reads less than [`least_rate`](Limits::least_rate) for longer.
    pub send_timeout: Duration,
    /// How many bytes a second a client has to read, if it keeps the server waiting.
    pub least_rate: u32,
    /// How long requests may take that are under way when the server is stopped.
    pub grace: Duration,
    /// Maximum length of the request line and headers together. Longer ones are refused.
    pub head: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            header_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            least_rate: 1000,
            grace: Duration::from_secs(30),
            head: 400 << 10,
        }
    }
}

/// Answers requests until `stop` is ready, and then those that are under way.
///
/// A connection that fails affects no other one: clients come and go.
pub async fn serve<H, F, B>(
    listener: TcpListener,
    limits: Limits,
    handler: H,
    stop: impl Future<Output = ()>,
) where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connections = Arc::new(Semaphore::new(open_files::connections(limits.connections)));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepting = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepting => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, peer)) = accepted else {
            // Too many open files, most likely: more connections have to wait.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Answers are written in one piece, or in large ones.
        let _ = stream.set_nodelay(true);
        let stream = Sending::new(stream, limits.send_timeout, limits.least_rate);
        let handler = handler.clone();
        let service = service_fn(move |request| {
            let answer = handler(request, peer);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            // The least that hyper allows.
            .max_buf_size(limits.head.max(8 << 10))
            .serve_connection(TokioIo::new(stream), service);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            // The client went away, or sent what is not HTTP.
            let _ = watched.await;
            drop(permit);
        });
    }
    // New clients are refused at once.
    drop(listener);
    let _ = timeout(limits.grace, graceful.shutdown()).await;
}
