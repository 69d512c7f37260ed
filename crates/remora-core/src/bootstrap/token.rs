//! Bootstrap tokens: what a new node proves with that it is one of a NodePool's machines.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use kube::core::ObjectMeta;
use remora_api::labels;

use crate::object::object;

/// Group of a NodePool's bootstrap tokens is this and the pool's name; kube-apiserver accepts no other beginning
/// (`BootstrapGroupPattern` in k8s.io/cluster-bootstrap).
pub const BOOTSTRAP_GROUP_PREFIX: &str = "system:bootstrappers:";
/// Namespace in which kube-apiserver looks for bootstrap tokens.
pub const TOKEN_NAMESPACE: &str = "kube-system";
/// How long a token is valid.
pub const TOKEN_LIFETIME: SignedDuration = SignedDuration::from_hours(2);
/// How much of its life a token has to have left: a machine that starts now has this long to join.
pub const TOKEN_REMAINDER: SignedDuration = SignedDuration::from_hours(1);
/// How many random bytes a token is made of.
pub const TOKEN_ENTROPY: usize = ID_LENGTH + SECRET_LENGTH;

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A bootstrap token.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    id: String,
    secret: String,
    expires: Timestamp,
}

impl BootstrapToken {
    /// Makes a token that is valid from `now` on.
    pub fn new(entropy: &[u8; TOKEN_ENTROPY], now: Timestamp) -> Self {
        let characters: String = entropy.iter().map(|byte| character(*byte)).collect();
        let (id, secret) = characters.split_at(ID_LENGTH);
        // The API carries times in whole seconds.
        let expires = Timestamp::from_second(now.as_second()).unwrap_or(now) + TOKEN_LIFETIME;
        Self { id: id.to_owned(), secret: secret.to_owned(), expires }
    }

    /// Takes a token up again that was handed out before.
    pub fn parse(text: &str, expires: Timestamp) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let is_valid = |part: &str, length| {
            part.len() == length && part.bytes().all(|byte| ALPHABET.contains(&byte))
        };
        (is_valid(id, ID_LENGTH) && is_valid(secret, SECRET_LENGTH)).then(|| Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
            expires,
        })
    }

    /// The public half.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What goes into a kubeconfig: both halves.
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// When it becomes invalid.
    pub fn expires(&self) -> Timestamp {
        self.expires
    }

    /// When it has to be replaced by a fresh one.
    pub fn renewal(&self) -> Timestamp {
        self.expires - TOKEN_REMAINDER
    }

    /// The Secret by which the hosted API server knows the token.
    pub fn secret(&self, node_pool: &str) -> DynamicObject {
        let text = |value: &str| ByteString(value.as_bytes().to_vec());
        let data = BTreeMap::from([
            ("token-id".to_owned(), text(&self.id)),
            ("token-secret".to_owned(), text(&self.secret)),
            ("expiration".to_owned(), text(&self.expires.to_string())),
            ("usage-bootstrap-authentication".to_owned(), text("true")),
            ("auth-extra-groups".to_owned(), text(&format!("{BOOTSTRAP_GROUP_PREFIX}{node_pool}"))),
            (
                "description".to_owned(),
                text(&format!("lets the machines of NodePool {node_pool} join")),
            ),
        ]);
        object(&Secret {
            metadata: ObjectMeta {
                name: Some(token_secret_name(&self.id)),
                namespace: Some(TOKEN_NAMESPACE.to_owned()),
                labels: Some(BTreeMap::from([(
                    labels::NODE_NODE_POOL.to_owned(),
                    node_pool.to_owned(),
                )])),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(data),
            ..Secret::default()
        })
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BootstrapToken")
            .field("id", &self.id)
            .field("secret", &"<redacted>")
            .field("expires", &self.expires)
            .finish()
    }
}

/// Name of the Secret of a token; kube-apiserver looks it up by this name.
pub fn token_secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

/// Reads from a token's Secret in the hosted cluster when the token expires.
pub fn expiration(secret: &Secret) -> Option<Timestamp> {
    let text = &secret.data.as_ref()?.get("expiration")?.0;
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The slight preference of the modulus for the first letters costs less than one bit of 82.
fn character(byte: u8) -> char {
    let index = usize::from(byte) % ALPHABET.len();
    char::from(ALPHABET.get(index).copied().unwrap_or(b'a'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> BootstrapToken {
        let entropy: [u8; TOKEN_ENTROPY] =
            std::array::from_fn(|index| u8::try_from(index).unwrap() * 7);
        BootstrapToken::new(&entropy, "2026-11-30T10:00:00.5Z".parse().unwrap())
    }

    #[test]
    fn when_a_token_is_made_its_secret_is_what_the_api_server_expects() {
        insta::assert_yaml_snapshot!(token().secret("pool-a"));
    }

    #[test]
    fn when_a_token_is_printed_for_debugging_its_secret_half_is_hidden() {
        let token = token();
        let printed = format!("{token:?}");
        let (_, secret) =
            token.reveal().split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(!printed.contains(&secret), "{printed}");
    }

    #[test]
    fn when_a_token_is_parsed_it_is_the_same_token() {
        let token = token();
        assert_eq!(BootstrapToken::parse(&token.reveal(), token.expires()), Some(token));
    }

    #[test]
    fn when_a_text_is_no_token_it_is_refused() {
        for text in ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef"] {
            assert_eq!(BootstrapToken::parse(text, Timestamp::UNIX_EPOCH), None, "{text}");
        }
    }
}
