//! `spec.pausedUntil`: whether an object is left alone for now.

use jiff::Timestamp;
use remora_api::HostedCluster;
use remora_api::node_pool::NodePoolSpec;

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

    /// When the object is worked on again by itself.
    fn end(self) -> Option<Timestamp> {
        match self {
            Self::Until(time) => Some(time),
            Self::Active | Self::Indefinite | Self::Invalid => None,
        }
    }
}

/// Whether the machines of a NodePool are left alone: by its own field, or by that of its HostedCluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPause {
    /// What the NodePool's field says.
    pub own: Pause,
    /// What the HostedCluster's field says.
    pub of_cluster: Pause,
}

impl PoolPause {
    /// Reads the fields. A HostedCluster that is being deleted pauses nothing: its deletion is not held up.
    pub fn read(
        pool: &NodePoolSpec,
        hosted_cluster: Option<&HostedCluster>,
        now: Timestamp,
    ) -> Self {
        let of_cluster = hosted_cluster
            .filter(|cluster| cluster.metadata.deletion_timestamp.is_none())
            .and_then(|cluster| cluster.spec.paused_until.as_deref());
        Self {
            own: Pause::read(pool.paused_until.as_deref(), now),
            of_cluster: Pause::read(of_cluster, now),
        }
    }

    /// Tells whether the machines are left alone.
    pub fn is_paused(self) -> bool {
        self.own.is_paused() || self.of_cluster.is_paused()
    }

    /// When one of the two ends by itself: what is said of the pool changes then, if not what is done.
    pub fn next_end(self) -> Option<Timestamp> {
        self.own.end().into_iter().chain(self.of_cluster.end()).min()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::validate::testing::hosted_cluster;

    fn pool(paused_until: Option<&str>) -> NodePoolSpec {
        serde_json::from_value(json!({
            "clusterName": "demo",
            "release": {"image": "registry.example/release:1.35.4"},
            "platform": {"type": "KubeVirt"},
            "management": {"upgradeType": "Replace"},
            "pausedUntil": paused_until,
        }))
        .unwrap()
    }

    fn cluster(paused_until: &str) -> HostedCluster {
        let mut cluster = hosted_cluster(|_| {});
        cluster.spec.paused_until = Some(paused_until.to_owned());
        cluster
    }

    #[test]
    fn when_its_cluster_is_paused_a_pool_is_too_until_the_first_of_both_changes() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let read = |pool_field, cluster_field: &str| {
            let pause = PoolPause::read(&pool(pool_field), Some(&cluster(cluster_field)), now);
            (pause.is_paused(), pause.next_end().map(|end| end.to_string()))
        };
        let (sooner, later) = ("2026-11-30T11:00:00Z", "2026-11-30T12:00:00Z");
        let past = "2026-11-30T09:00:00Z";
        assert_eq!(read(None, "false"), (false, None));
        assert_eq!(read(None, past), (false, None));
        assert_eq!(read(None, "true"), (true, None));
        assert_eq!(read(Some("true"), "false"), (true, None));
        assert_eq!(read(None, later), (true, Some(later.to_owned())));
        assert_eq!(read(Some("true"), later), (true, Some(later.to_owned())));
        assert_eq!(read(Some(sooner), later), (true, Some(sooner.to_owned())));
        assert_eq!(read(Some(later), sooner), (true, Some(sooner.to_owned())));
    }

    #[test]
    fn when_there_is_no_cluster_or_it_is_being_deleted_it_pauses_no_pool() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        assert!(!PoolPause::read(&pool(None), None, now).is_paused());
        let mut leaving = cluster("true");
        leaving.metadata.deletion_timestamp = Some(Time(now));
        assert!(!PoolPause::read(&pool(None), Some(&leaving), now).is_paused());
        assert!(PoolPause::read(&pool(Some("true")), Some(&leaving), now).is_paused());
    }

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
