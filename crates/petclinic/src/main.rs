//! The sample application: one page with a picture, on three ports.
fn main() {}
