//! The `waypost` command as people and scripts use it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "command/aggregator.rs"]
mod aggregator;
#[path = "command/basics.rs"]
mod basics;
#[path = "command/check.rs"]
mod check;
#[path = "command/converting.rs"]
mod converting;
#[path = "command/demo.rs"]
mod demo;
#[path = "command/examples.rs"]
mod examples;
#[path = "../../router/tests/fakes/mod.rs"]
mod fakes;
#[path = "command/fetch.rs"]
mod fetch;
#[path = "command/filter.rs"]
mod filter;
#[path = "command/filtered.rs"]
mod filtered;
#[path = "../../../tests/http.rs"]
mod http;
#[path = "command/http2.rs"]
mod http2;
#[path = "command/inputs.rs"]
mod inputs;
#[path = "command/insight.rs"]
mod insight;
#[path = "command/keys.rs"]
mod keys;
#[path = "command/lookups.rs"]
mod lookups;
#[path = "command/map.rs"]
mod map;
#[path = "command/options.rs"]
mod options;
#[path = "command/profile.rs"]
mod profile;
#[path = "command/remote.rs"]
mod remote;
#[path = "command/routing.rs"]
mod routing;
#[path = "../../net/tests/server/mod.rs"]
mod server;
#[path = "command/serving.rs"]
mod serving;
#[path = "command/sharing.rs"]
mod sharing;
#[path = "command/snapshots.rs"]
mod snapshots;
#[path = "command/sorting.rs"]
mod sorting;
#[path = "command/stats.rs"]
mod stats;
#[path = "command/tls.rs"]
mod tls;
#[path = "command/wacz.rs"]
mod wacz;
#[path = "command/warc.rs"]
mod warc;
#[path = "command/worker.rs"]
mod worker;
#[path = "../../../tests/zip.rs"]
mod zip;

use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn waypost(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("waypost"));
    command.args(args);
    command
}

/// A file of `examples/`.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

/// What a run printed, and its exit code.
struct Run {
    stdout: String,
    stderr: String,
    code: i32,
}

fn run(args: &[&str], stdin: &[u8]) -> Run {
    let output = waypost(args).write_stdin(stdin).output().unwrap();
    Run {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}
