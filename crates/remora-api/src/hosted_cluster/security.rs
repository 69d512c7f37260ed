//! Encryption of what etcd stores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LocalObjectReference, OtherFields};
use crate::word::words;

words! {
    /// Ways to encrypt.
    pub enum SecretEncryptionType {
        /// By a key management service.
        Kms => "kms",
        /// By AES-CBC with a key in a Secret.
        AesCbc => "aescbc",
    }
}

words! {
    /// Key management services.
    pub enum KmsProvider {
        /// IBM Cloud.
        IbmCloud => "IBMCloud",
        /// Amazon Web Services.
        Aws => "AWS",
        /// Microsoft Azure.
        Azure => "Azure",
    }
}

/// How Secrets are encrypted in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretEncryptionSpec {
    /// The way.
    #[serde(rename = "type")]
    pub encryption_type: SecretEncryptionType,
    /// Settings of type `kms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms: Option<KmsSpec>,
    /// Settings of type `aescbc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aescbc: Option<AesCbcSpec>,
}

/// A key management service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KmsSpec {
    /// The service.
    pub provider: KmsProvider,
    /// What the service needs to know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Keys of AES-CBC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AesCbcSpec {
    /// Secret with the key that encrypts, key `key`.
    pub active_key: LocalObjectReference,
    /// Secret with a key that still decrypts, key `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_key: Option<LocalObjectReference>,
}
