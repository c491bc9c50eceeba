//! Filters in Redis, for several servers that share one copy.
//!
//! | key | value |
//! |---|---|
//! | `waypost:{ID}:current` | the generation of the archive `ID` that lookups use |
//! | `waypost:{ID}:GEN` | a hash: size, number of keys, false positive rate, … |
//! | `waypost:{ID}:GEN:head` | what precedes the shards of the filter file |
//! | `waypost:{ID}:GEN:N` | piece `N` of the file: 64 MiB, and the first kilobyte of the next |
//!
//! A filter is built locally and uploaded in ranges, and then becomes the current generation at once. A
//! lookup is one `GETRANGE` of less than a kilobyte. Works on any Redis, without modules.

mod import;
mod lookup;
mod upload;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Connection, FromRedisValue, IntoConnectionInfo, RedisError};
use waypost_io::{Error, ErrorKind, RemoteProblem, Result};

pub use import::{RedisImport, import};
pub use lookup::StoredFilter;
pub use upload::{UploadReport, upload};

/// The size of a piece: far below the 512 MB that a string may have.
const PIECE: u64 = 64 << 20;

/// How long to wait for the server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A Redis server.
pub struct Store {
    client: redis::Client,
    /// For messages, without a password.
    name: String,
    idle: Mutex<Vec<Connection>>,
}

impl Store {
    /// A server: `redis://[:PASSWORD@]HOST[:PORT][/DATABASE]`. No connection is made yet.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn new(url: &str) -> Result<Store> {
        let wrong = |error: RedisError| {
            Error::new(ErrorKind::Invalid(format!(
                "invalid URL of a store: {error}"
            )))
        };
        let info = url.into_connection_info().map_err(wrong)?;
        let name = format!("redis://{}", info.addr());
        Ok(Store {
            client: redis::Client::open(info).map_err(wrong)?,
            name,
            idle: Mutex::default(),
        })
    }

    /// Its name, without a password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ids of the archives that it has.
    ///
    /// # Errors
    /// If the server fails.
    pub fn archives(&self) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let mut cursor = 0u64;
        loop {
            let (next, keys): (u64, Vec<String>) = self.run(|connection| {
                redis::cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg("waypost:{*}:current")
                    .arg("COUNT")
                    .arg(1000)
                    .query(connection)
            })?;
            ids.extend(keys.iter().filter_map(|key| {
                let id = key.strip_prefix("waypost:{")?.strip_suffix("}:current")?;
                Some(id.to_owned())
            }));
            if next == 0 {
                break;
            }
            cursor = next;
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// Runs commands on a connection, which is kept if they succeed.
    fn run<T>(&self, mut run: impl FnMut(&mut Connection) -> redis::RedisResult<T>) -> Result<T> {
        let lock = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was idle may have been closed by the server.
        let idle = lock().pop();
        if let Some(mut connection) = idle {
            match run(&mut connection) {
                Ok(done) => {
                    lock().push(connection);
                    return Ok(done);
                }
                Err(error) if error.is_io_error() => lock().clear(),
                Err(error) => return Err(self.failed(&error)),
            }
        }
        let connected = self.client.get_connection_with_timeout(TIMEOUT);
        let mut connection = connected.map_err(|error| self.failed(&error))?;
        let limited = connection
            .set_read_timeout(Some(TIMEOUT))
            .and_then(|()| connection.set_write_timeout(Some(TIMEOUT)));
        limited.map_err(|error| self.failed(&error))?;
        let done = run(&mut connection).map_err(|error| self.failed(&error))?;
        lock().push(connection);
        Ok(done)
    }

    fn query<T: FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        self.run(|connection| command.query(connection))
    }

    fn failed(&self, error: &RedisError) -> Error {
        let problem = match error.is_io_error() {
            true => RemoteProblem::Unreachable,
            false => RemoteProblem::Invalid,
        };
        let detail = format!("the store failed: {error}");
        Error::new(ErrorKind::Remote { problem, detail }).in_file(&self.name)
    }
}

/// The keys of an archive. The braces keep them on one node of a cluster.
fn current_key(id: &str) -> String {
    format!("waypost:{{{id}}}:current")
}

fn generation_key(id: &str, generation: &str) -> String {
    format!("waypost:{{{id}}}:{generation}")
}

fn head_key(id: &str, generation: &str) -> String {
    format!("{}:head", generation_key(id, generation))
}

fn piece_key(id: &str, generation: &str, piece: u64) -> String {
    format!("{}:{piece}", generation_key(id, generation))
}
