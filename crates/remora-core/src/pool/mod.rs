//! NodePools: which machines there are, what each is made of, and which go.

mod json_patch;
pub mod machine;
mod name;
mod plan;
mod template;
mod validate;
mod virtual_machine;

pub use json_patch::{PatchError, check_patch};
pub use machine::Machine;
pub use name::{NAME_ENTROPY, POOL_NAME_LIMIT, machine_name, names_machines, node_pool_of};
pub use plan::{Plan, Replacement, Wanted, in_order, plan};
pub use template::{
    DefaultNetwork, HostDevice, MachineTemplate, Multiqueue, NoDiskImage, QualityOfService,
    Revision, RootDisk, TemplateSources, VolumeImporter,
};
pub use validate::{PoolRules, Problem, Size, validate};
pub use virtual_machine::{MachineOwner, virtual_machine};
