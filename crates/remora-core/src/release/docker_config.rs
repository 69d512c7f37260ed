//! Credentials of registries, as a pull secret holds them (`.dockerconfigjson`).

use std::collections::BTreeMap;

use base64::Engine as _;
use serde::Deserialize;

/// User and password of a registry; the password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub user: String,
    /// Password or token.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// A pull secret's content cannot be read. The content is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no JSON object with a field auths")]
pub struct DockerConfigError;

/// Finds the credentials of a registry (`host` or `host:port`); none means anonymous access.
pub fn credentials(
    config: &[u8],
    registry: &str,
) -> Result<Option<Credentials>, DockerConfigError> {
    let config: DockerConfig = serde_json::from_slice(config).map_err(|_| DockerConfigError)?;
    let entry = config.auths.into_iter().find(|(key, _)| host_of(key) == registry);
    Ok(entry.and_then(|(_, entry)| entry_credentials(entry)))
}

/// Keys are host names, or URLs like `https://index.registry.example/v1/`.
fn host_of(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split('/').next().unwrap_or(key)
}

fn entry_credentials(entry: Entry) -> Option<Credentials> {
    let Entry { auth, username, password } = entry;
    if !username.is_empty() {
        return Some(Credentials { user: username, password });
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(auth.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    (!user.is_empty()).then(|| Credentials { user: user.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"auths": {
        "registry.example:5000": {"auth": "dXNlcjpwYTpzcw=="},
        "https://index.registry.example/v1/": {"username": "u", "password": "p"},
        "anonymous.example": {}
    }}"#;

    fn found(registry: &str) -> Option<(String, String)> {
        credentials(CONFIG.as_bytes(), registry)
            .unwrap()
            .map(|credentials| (credentials.user, credentials.password))
    }

    #[test]
    fn when_a_registry_is_listed_its_credentials_are_found() {
        assert_eq!(found("registry.example:5000"), Some(("user".to_owned(), "pa:ss".to_owned())));
        assert_eq!(found("index.registry.example"), Some(("u".to_owned(), "p".to_owned())));
    }

    #[test]
    fn when_a_registry_has_no_credentials_access_is_anonymous() {
        assert_eq!(found("anonymous.example"), None);
        assert_eq!(found("registry.example"), None);
    }

    #[test]
    fn when_the_content_is_no_json_it_is_not_repeated() {
        let error = credentials(b"secret", "r").unwrap_err();
        assert_eq!(error.to_string(), "it is no JSON object with a field auths");
    }
}
