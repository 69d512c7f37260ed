//! End-to-end stories, run in the lab.
