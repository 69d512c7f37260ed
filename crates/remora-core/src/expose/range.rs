//! Node ports that the hosting API server does not give out: its range is known only by its refusal.

use std::ops::RangeInclusive;

use super::allocate::{Cause, Choice};
use super::{Refusal, Served, service};

/// What an API server says before the range of node ports, when it refuses one outside.
const RANGE_WORDS: &str = "The range of valid ports is ";

/// The range of node ports, if this is the refusal of one outside.
pub fn valid_range(refusal: &str) -> Option<RangeInclusive<u16>> {
    let (_, rest) = refusal.split_once(RANGE_WORDS)?;
    let word = rest.split(|c: char| !c.is_ascii_digit() && c != '-').next()?;
    let (first, last) = word.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

impl Served {
    /// The same with node ports inside the range: a preferred one gives way, one that was asked for is refused.
    pub fn within(&self, range: &RangeInclusive<u16>) -> Result<Self, Refusal> {
        let told = format!("{}-{}", range.start(), range.end());
        let mut moved = self.clone();
        for (port, choice) in &mut moved.ports {
            match choice {
                Choice::Asked(number) | Choice::Substitute { kept: Some(number), .. }
                    if !range.contains(number) =>
                {
                    let detail = format!("{number} is not in {told}");
                    return Err(Refusal::NodePortOutOfRange { detail });
                }
                Choice::Preferred(number) if !range.contains(number) => {
                    let cause = Cause::OutsideRange { range: told.clone() };
                    *choice = Choice::Substitute { kept: None, cause };
                    service::leave_node_port_open(&mut moved.service, port);
                }
                Choice::Asked(_) | Choice::Preferred(_) | Choice::Substitute { .. } => {}
            }
        }
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_read_from_the_refusal() {
        let refusal = "Service \"expose-a\" is invalid: spec.ports[0].nodePort: Invalid value: 40000: provided port \
                       is not in the valid range. The range of valid ports is 30000-32767";
        assert_eq!(valid_range(refusal), Some(30000..=32767));
        assert_eq!(valid_range("provided port is already allocated"), None);
    }
}
