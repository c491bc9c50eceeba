//! Starts the archives, each a server of its own, and the router that asks them.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::Context;
use clap::Parser;
use http::{Response, header};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use waypost_net::server::Limits;

use super::steps::summary_of;
use super::world::{ARCHIVES, Archive};
use super::{Demo, figures};
use crate::cmd::{Cli, index};
use crate::exit::Exit;
use crate::printer::Printer;

/// The configuration of the router.
const CONFIG: &str = "waypost.toml";

/// Runs the archives and compares routing with asking everyone. Then, unless only the figures are
/// wanted, runs the router until it is stopped.
pub(super) fn run(
    demo: &Demo,
    lookups: &[String],
    showpiece: &str,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let runtime = Runtime::new().context("cannot start threads")?;
    out.note("\nEach archive answers Memento requests on this machine:");
    let config = runtime.block_on(start_archives(out))?;
    std::fs::write(CONFIG, config).with_context(|| format!("cannot write {CONFIG}"))?;
    runtime.block_on(figures::compare(CONFIG.as_ref(), lookups, out))?;
    let exit = match demo.once {
        true => Exit::Yes,
        false => serve(demo.listen, showpiece, out)?,
    };
    runtime.shutdown_background();
    Ok(exit)
}

/// Starts a server for each archive, and returns the configuration of a router that asks them.
async fn start_archives(out: &Printer) -> anyhow::Result<String> {
    let replay = start_replay().await?;
    let mut config = "# The router of `waypost demo`.\n\n[log]\nfile = \"router.log\"\n\n\
        # Now and then, also ask archives that are known not to hold a page, to audit the recall.\n\
        [routing]\nprobe = 0.05\n"
        .to_owned();
    for archive in &ARCHIVES {
        let address = start_archive(archive, replay, out).await?;
        let (id, name) = (archive.id, archive.name);
        let summary = summary_of(id);
        write!(
            config,
            "\n[[archive]]\nid = \"{id}\"\nname = \"{name}\"\n\
             timemap = \"http://{address}/{id}/timemap/link/\"\n\
             timegate = \"http://{address}/{id}/\"\nsummaries = [\"{summary}\"]\n"
        )?;
    }
    Ok(config)
}

/// The options of `waypost index serve`.
#[derive(Parser)]
struct IndexServe {
    #[command(flatten)]
    options: index::serve::Serve,
}

async fn start_archive(
    archive: &Archive,
    replay: SocketAddr,
    out: &Printer,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let id = archive.id;
    let words = [
        "index serve",
        "--collection",
        &format!("{id}={id}.cdxj"),
        "--listen",
        &address.to_string(),
        "--replay",
        &format!("http://{replay}/{id}/{{timestamp}}/{{url}}"),
    ];
    out.note(format_args!("$ waypost {}", words.join(" ")));
    let server = IndexServe::try_parse_from(words)?
        .options
        .open(&out.silent())?;
    let messages = out.messages();
    let report = move |message: String| messages.note(message);
    tokio::spawn(server.run(listener, None, report, std::future::pending()));
    Ok(address)
}

/// Starts the server that stands in for the replay of all archives: they have indexes only, so it
/// says what would be shown.
async fn start_replay() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let handler = |request: http::Request<hyper::body::Incoming>, _| async move {
        let page = replay_page(
            request
                .uri()
                .path_and_query()
                .map_or("", |path| path.as_str()),
        );
        let mut answer = Response::new(page);
        let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        answer
    };
    let stop = std::future::pending();
    tokio::spawn(waypost_net::server::serve(
        listener,
        Limits::default(),
        handler,
        stop,
    ));
    Ok(address)
}

/// What stands in for a replayed page.
fn replay_page(path: &str) -> String {
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let id = parts.next().unwrap_or_default();
    let (Some(time), Some(url)) = (parts.next(), parts.next()) else {
        return "Nothing is replayed here.\n".to_owned();
    };
    let name = ARCHIVES.iter().find(|archive| archive.id == id);
    let name = name.map_or(id, |archive| archive.name);
    format!(
        "Here the {name} would show {url} as it was at {time}.\n\
         The archives of the demo have indexes, but no pages.\n"
    )
}

/// Runs the router until it is stopped.
fn serve(listen: SocketAddr, showpiece: &str, out: &mut Printer) -> anyhow::Result<Exit> {
    // The address is shown before the router starts.
    let listen = match listen.port() {
        0 => std::net::TcpListener::bind(listen)?.local_addr()?,
        _ => listen,
    };
    let command = format!("serve --config {CONFIG} --listen {listen} --monitor");
    let base = format!("http://{listen}");
    out.note(format_args!(
        "\nThe router, which asks only archives that may hold a page:\n$ waypost {command}\n\n\
         Open {base}/ in a browser, or try:\n\
         \x20 curl {base}/timemap/link/{showpiece}\n\
         \x20 curl -i {base}/timegate/{showpiece}\n\
         \x20 curl {base}/explain/{showpiece}\n\
         Ctrl-C stops everything.\n"
    ));
    let words = ["waypost"].into_iter().chain(command.split(' '));
    Cli::try_parse_from(words)?.run(out)
}
