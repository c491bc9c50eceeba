//! Publish, discover and route; real archives behind the router.
