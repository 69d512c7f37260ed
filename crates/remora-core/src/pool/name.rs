//! Names of machines.

/// How many random bytes a machine's name is made of.
pub const NAME_ENTROPY: usize = 5;
/// Longest NodePool name of which machines can be named: a machine's name becomes a host name, which has at most 63
/// characters (RFC 1123).
pub const POOL_NAME_LIMIT: usize = 63 - 1 - NAME_ENTROPY;

/// Tells whether machines can be named after a NodePool. There are none of another one, and where the name is longer than
/// a label's value may be, an API server refuses even to be asked for them.
pub fn names_machines(node_pool: &str) -> bool {
    node_pool.len() <= POOL_NAME_LIMIT && !node_pool.contains('.')
}

/// Kubernetes' own alphabet for generated names (`k8s.io/apimachinery/pkg/util/rand`): no vowels, so no words, and
/// nothing that looks like something else.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Names a machine `<node pool>-<5 random characters>`.
pub fn machine_name(node_pool: &str, entropy: &[u8; NAME_ENTROPY]) -> String {
    let suffix: String = entropy
        .iter()
        .map(|byte| {
            let index = usize::from(*byte) % ALPHABET.len();
            char::from(ALPHABET.get(index).copied().unwrap_or(b'b'))
        })
        .collect();
    format!("{node_pool}-{suffix}")
}

/// The NodePool that a machine of this name has, if it is the name of a machine.
pub fn node_pool_of(machine: &str) -> Option<&str> {
    let (node_pool, suffix) = machine.rsplit_once('-')?;
    let is_drawn =
        suffix.len() == NAME_ENTROPY && suffix.bytes().all(|byte| ALPHABET.contains(&byte));
    (is_drawn && !node_pool.is_empty()).then_some(node_pool)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn when_a_machine_is_named_the_name_is_a_host_name_of_its_pool(
            pool in "[a-z]([-a-z0-9]{0,55}[a-z0-9])?",
            entropy: [u8; NAME_ENTROPY],
        ) {
            let name = machine_name(&pool, &entropy);
            prop_assert!(names_machines(&pool));
            prop_assert_eq!(node_pool_of(&name), Some(pool.as_str()));
            prop_assert!(name.len() <= 63);
            prop_assert_eq!(name.strip_prefix(&format!("{pool}-")).map(str::len), Some(NAME_ENTROPY));
            prop_assert!(name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        }
    }
}
