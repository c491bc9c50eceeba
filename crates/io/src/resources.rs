//! Limits on memory, temporary files and threads.

use std::path::PathBuf;

/// Limits on memory and threads, and the folder for temporary files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of memory. What exceeds it is spilled to temporary files.
    pub memory: usize,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Threads that work at the same time. At least one.
    pub threads: usize,
}

impl Resources {
    /// The same with another memory limit, for a part of the work.
    #[must_use]
    pub fn with_memory(&self, memory: usize) -> Resources {
        Resources {
            memory,
            ..self.clone()
        }
    }
}

/// A gibibyte, the system's folder for temporary files, and all cores.
impl Default for Resources {
    fn default() -> Resources {
        Resources {
            memory: 1 << 30,
            temporary: std::env::temp_dir(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
