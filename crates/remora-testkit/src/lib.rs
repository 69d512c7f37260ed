//! Fixtures of the tests: a real API server, builders, waiting.
