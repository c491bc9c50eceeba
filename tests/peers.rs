//! Real peers from package registries: included by the test files of several crates.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "no test file needs all of it")]

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A process that is stopped when it is dropped.
pub(crate) struct Peer {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Peer {
    /// Starts a server of pywb in `folder`.
    pub(crate) fn start(python: &Path, program: &str, folder: &Path) -> Peer {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let log = fs::File::create(folder.join(format!("{program}.log"))).unwrap();
        let process = Command::new(python.with_file_name(program))
            .args(["-p", &address.port().to_string(), "-b", "127.0.0.1"])
            .current_dir(folder)
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut peer = Peer { process, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let log = || fs::read_to_string(folder.join(format!("{program}.log"))).unwrap();
            assert!(peer.process.try_wait().unwrap().is_none(), "{}", log());
            assert!(started.elapsed() < Duration::from_secs(60), "{}", log());
            sleep(Duration::from_millis(100));
        }
        peer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a Python program and returns what it prints.
pub(crate) fn run(python: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(python)
        .args(["-c", program])
        .args(arguments)
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}
