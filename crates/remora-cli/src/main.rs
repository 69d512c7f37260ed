//! The command line: remora.
fn main() {}
