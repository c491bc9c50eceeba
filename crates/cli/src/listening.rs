//! What the servers share: the address to listen on, and the access log.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use waypost_archive::AccessLog;

use crate::hint::Hint;

/// Listens on an address.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .hint("choose another address with --listen, or port 0 for a free one")
}

/// Opens an access log; `-` is stderr.
pub(crate) fn access_log(path: Option<&Path>) -> anyhow::Result<Option<Arc<AccessLog>>> {
    Ok(match path {
        None => None,
        Some(path) if path.as_os_str() == "-" => Some(Arc::new(AccessLog::new(std::io::stderr()))),
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file.with_context(|| format!("cannot open {}", path.display()))?;
            Some(Arc::new(AccessLog::new(file)))
        }
    })
}
