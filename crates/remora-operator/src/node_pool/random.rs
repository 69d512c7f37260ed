//! Random bytes.

use super::error::PoolError;

/// Draws random bytes that nobody can foresee.
pub(super) fn bytes<const LENGTH: usize>() -> Result<[u8; LENGTH], PoolError> {
    let mut bytes = [0; LENGTH];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| PoolError::Random)?;
    Ok(bytes)
}
