//! Remora's decisions: pure functions from what is wanted and seen to what must exist.
