//! How many connections the limit on open files allows.
//!
//! Many systems start processes with a soft limit of 1,024 open files and a hard limit that is much
//! higher. A server that runs into the limit can neither accept connections nor open its files, so the
//! soft limit is raised to the hard one, and connections leave half of it to everything else.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard limit, once. Returns the limit; `None` if there is
/// none.
pub fn raise() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let before = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        };
        match before.current == before.maximum || setrlimit(Resource::Nofile, raised).is_ok() {
            true => before.maximum,
            // Some systems do not accept their own hard limit.
            false => before.current,
        }
    })
}

/// The number of connections that a server accepts if it is to accept `wanted`: no more than half of
/// the open files that the system allows.
pub fn connections(wanted: usize) -> usize {
    within(wanted, raise())
}

fn within(wanted: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else {
        return wanted;
    };
    let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
    wanted.min(half.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        let limit = raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, limit);
        assert_eq!(now.current, now.maximum);
    }

    #[test]
    fn connections_leave_open_files_to_others() {
        assert_eq!(within(4096, None), 4096);
        assert_eq!(within(4096, Some(1 << 20)), 4096);
        assert_eq!(within(4096, Some(1024)), 512);
        assert_eq!(within(10, Some(1)), 1);
    }
}
