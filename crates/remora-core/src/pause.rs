//! `spec.pausedUntil`: whether an object is left alone for now.

use jiff::Timestamp;

/// What `spec.pausedUntil` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The object is worked on.
    Active,
    /// The object is left alone until someone changes the field.
    Indefinite,
    /// The object is left alone until then.
    Until(Timestamp),
    /// The field is neither a time nor a truth value; the object is worked on.
    Invalid,
}

impl Pause {
    /// Reads the field.
    pub fn read(paused_until: Option<&str>, now: Timestamp) -> Self {
        match paused_until {
            None | Some("" | "false" | "False") => Self::Active,
            Some("true" | "True") => Self::Indefinite,
            Some(text) => match text.parse::<Timestamp>() {
                Ok(time) if time > now => Self::Until(time),
                Ok(_) => Self::Active,
                Err(_) => Self::Invalid,
            },
        }
    }

    /// Tells whether the object is left alone.
    pub fn is_paused(self) -> bool {
        matches!(self, Self::Indefinite | Self::Until(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_field_is_read_times_and_truth_values_are_told_apart() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-11-30T11:00:00Z".parse().unwrap();
        let cases = [
            (None, Pause::Active),
            (Some("false"), Pause::Active),
            (Some("True"), Pause::Indefinite),
            (Some("2026-11-30T11:00:00Z"), Pause::Until(later)),
            (Some("2026-11-30T12:00:00+01:00"), Pause::Until(later)),
            (Some("2026-11-30T09:00:00Z"), Pause::Active),
            (Some("2026-11-30"), Pause::Invalid),
        ];
        for (text, pause) in cases {
            // 12:00+01:00 is 11:00Z.
            assert_eq!(Pause::read(text, now), pause, "{text:?}");
        }
    }
}
