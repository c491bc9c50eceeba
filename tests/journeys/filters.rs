//! Filters: classic, keyed and writable, from build to lookup service and router.
