//! What the lab is to be, as `up` decided and everything else reads.

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::files;
use crate::paths::Paths;
use crate::topology::Topology;

/// The lab's settings; they stay as they are until `down`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    /// Its hosts.
    pub(crate) topology: Topology,
    /// The image of the process that holds a pod's namespaces, by digest. The hosts are started
    /// when it is in the registry.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) pause_image: Option<String>,
}

impl Plan {
    /// The plan of the lab in these paths, when there is one.
    pub(crate) fn read(paths: &Paths) -> Result<Option<Self>, LabError> {
        files::read_json(&paths.plan())
    }

    /// The plan of the lab in these paths.
    pub(crate) fn require(paths: &Paths) -> Result<Self, LabError> {
        Self::read(paths)?.ok_or_else(|| {
            LabError::Refused(format!(
                "there is no lab in {}: make one with `remora lab up`",
                paths.lab().display()
            ))
        })
    }

    /// Writes the plan.
    pub(crate) fn write(&self, paths: &Paths) -> Result<(), LabError> {
        files::write_json(&paths.plan(), self).map(drop)
    }
}
