//! What users do with Remora, done in the lab: one file per story.
//!
//! The stories share one lab, brought up by the first of them, and run one after another (`--test-threads=1`: there
//! are two cores and every virtual machine is emulated). Each story makes sure of what it needs, so any of them
//! runs alone and in any order. A deadline is there to catch a hang, at ten times what was measured; when one
//! passes, the story prints what the objects, the pods and the serial consoles say.

mod support;

mod demo;
mod exposures;
mod interruption;
mod konnectivity;
mod load_balancers;
mod refusals;
mod repair;
mod scaling;
mod tenants;
