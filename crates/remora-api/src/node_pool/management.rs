//! How nodes of a pool are replaced and repaired.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{immutable, int_or_string, rule};
use crate::word::words;

words! {
    /// Ways to bring a new release or configuration to the nodes.
    pub enum UpgradeType {
        /// New nodes take the place of old ones.
        Replace => "Replace",
        /// The nodes are changed where they are.
        InPlace => "InPlace",
    }
}

words! {
    /// Who decides when an old node goes.
    pub enum UpgradeStrategy {
        /// Remora, some at a time.
        RollingUpdate => "RollingUpdate",
        /// The user, by deleting it.
        OnDelete => "OnDelete",
    }
}

/// How nodes of a pool are replaced and repaired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.inPlace) || self.upgradeType == 'InPlace'",
    "The 'inPlace' field can only be set when 'upgradeType' is 'InPlace'",
)]))]
pub struct NodePoolManagement {
    /// The way; cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [immutable("UpgradeType")]))]
    pub upgrade_type: UpgradeType,
    /// Manners of type `Replace`.
    #[serde(default)]
    pub replace: ReplaceUpgrade,
    /// Manners of type `InPlace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlaceUpgrade>,
    /// Whether unhealthy nodes are replaced.
    #[serde(default)]
    pub auto_repair: bool,
}

/// Manners of upgrades that replace nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.rollingUpdate) || self.strategy == 'RollingUpdate'",
    "The 'rollingUpdate' field can only be set when 'strategy' is 'RollingUpdate'",
)]))]
pub struct ReplaceUpgrade {
    /// Who decides when an old node goes.
    #[serde(default = "default_strategy")]
    pub strategy: UpgradeStrategy,
    /// How many nodes at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

impl Default for ReplaceUpgrade {
    fn default() -> Self {
        Self {
            strategy: default_strategy(),
            rolling_update: Some(RollingUpdate {
                max_unavailable: Some(IntOrString::Int(0)),
                max_surge: Some(IntOrString::Int(1)),
            }),
        }
    }
}

/// How many nodes are replaced at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many may be missing: a number, or a percentage that is rounded down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// How many more there may be: a number, or a percentage that is rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub max_surge: Option<IntOrString>,
}

/// Manners of upgrades that keep nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpgrade {
    /// How many nodes are changed at a time: a number, or a percentage; 1 when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable: Option<IntOrString>,
}

fn default_strategy() -> UpgradeStrategy {
    UpgradeStrategy::RollingUpdate
}
