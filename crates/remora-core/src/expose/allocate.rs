//! Who gets which node port of the hosting cluster.
//!
//! All exposures are decided together, from the same input, so that two of them that want one port come to the same
//! verdict whoever is asked first:
//! 1. a port of a Service that is no exposure's is not to be had;
//! 2. an exposure that holds a port and still wants it keeps it;
//! 3. what is left goes to the oldest exposure (then by namespace and name).
//!
//! An exposure that asked for a port by number and does not get it is refused as a whole. One that asked for none
//! prefers the hosted node port, and takes any other free one if that is taken. Such a substitute is kept: a port that
//! users have been told does not move because the preferred one becomes free.
//!
//! Kubernetes allocates a number once, whatever the protocol; only one Service may use it for several protocols.

use std::collections::{BTreeMap, BTreeSet};

use remora_api::service_exposure::Protocol;

/// One exposure's order in line: age first, then its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// Creation time in seconds since the epoch.
    pub created: i64,
    /// Namespace of the exposure.
    pub namespace: String,
    /// Name of the exposure.
    pub name: String,
}

/// What one exposure wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose claim it is.
    pub rank: Rank,
    /// One entry per exposed port.
    pub ports: Vec<PortClaim>,
}

/// What one exposed port wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortClaim {
    /// Protocol of the port.
    pub protocol: Protocol,
    /// Node port inside the hosted cluster: the preferred one when none is asked for.
    pub hosted: u16,
    /// Node port that the exposure asks for.
    pub asked: Option<u16>,
    /// Node port that the exposure's Service has now.
    pub current: Option<u16>,
    /// The current one was taken because the preferred one was in use.
    pub is_substitute: bool,
}

/// Which node port one exposed port gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one that was asked for.
    Asked(u16),
    /// The same as inside the hosted cluster.
    Preferred(u16),
    /// Another one, because the preferred one is in use.
    Substitute {
        /// The one that is kept; none: the hosting API server chooses.
        kept: Option<u16>,
        /// Who has the preferred one, as far as it is known.
        holder: Option<String>,
    },
}

/// A node port that was asked for is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The port.
    pub port: u16,
    /// Who has it.
    pub holder: String,
}

impl PortClaim {
    /// The port that this claim is for, if it has a wish at all.
    fn wish(&self) -> u16 {
        match (self.asked, self.current) {
            (Some(asked), _) => asked,
            (None, Some(current)) if self.is_substitute => current,
            (None, _) => self.hosted,
        }
    }

    /// It has what it wishes for.
    fn is_held(&self) -> bool {
        self.current == Some(self.wish())
    }
}

#[derive(Clone, Debug)]
enum Owner<'a> {
    Foreign(&'a str),
    Exposure(&'a Rank),
}

impl Owner<'_> {
    fn told(&self) -> String {
        match self {
            Self::Foreign(holder) => (*holder).to_owned(),
            Self::Exposure(rank) => format!("ServiceExposure {}/{}", rank.namespace, rank.name),
        }
    }
}

/// Decides all claims; `foreign` names, for each node port that no claim can have, who holds it.
pub fn allocate(
    claims: &[Claim],
    foreign: &BTreeMap<u16, String>,
) -> BTreeMap<Rank, Result<Vec<Choice>, Taken>> {
    let mut in_line: Vec<&Claim> = claims.iter().collect();
    in_line.sort_by(|a, b| a.rank.cmp(&b.rank));

    let mut owners: BTreeMap<u16, Owner<'_>> =
        foreign.iter().map(|(port, holder)| (*port, Owner::Foreign(holder))).collect();
    for claim in &in_line {
        for port in claim.ports.iter().filter(|port| port.is_held()) {
            owners.entry(port.wish()).or_insert(Owner::Exposure(&claim.rank));
        }
    }
    in_line
        .into_iter()
        .map(|claim| (claim.rank.clone(), allocate_one(claim, &mut owners)))
        .collect()
}

fn allocate_one<'a>(
    claim: &'a Claim,
    owners: &mut BTreeMap<u16, Owner<'a>>,
) -> Result<Vec<Choice>, Taken> {
    for asked in claim.ports.iter().filter_map(|port| port.asked) {
        if let Some(holder) = holder_beside(&claim.rank, asked, owners) {
            return Err(Taken { port: asked, holder });
        }
    }
    // Within one Service a number is free once per protocol; what is asked for goes before what is preferred.
    let mut used: BTreeSet<(u16, Protocol)> = BTreeSet::new();
    for port in &claim.ports {
        if let Some(asked) = port.asked {
            used.insert((asked, port.protocol));
            owners.insert(asked, Owner::Exposure(&claim.rank));
        }
    }
    let mut choices: Vec<Option<Choice>> =
        claim.ports.iter().map(|port| port.asked.map(Choice::Asked)).collect();
    // A port that is held goes before one that is only wished for.
    let (held, wished): (Vec<_>, Vec<_>) =
        claim.ports.iter().zip(&mut choices).partition(|(port, _)| port.is_held());
    for (port, choice) in held.into_iter().chain(wished) {
        choice.get_or_insert_with(|| choose(&claim.rank, port, &mut used, owners));
    }
    Ok(choices.into_iter().flatten().collect())
}

fn choose<'a>(
    rank: &'a Rank,
    port: &PortClaim,
    used: &mut BTreeSet<(u16, Protocol)>,
    owners: &mut BTreeMap<u16, Owner<'a>>,
) -> Choice {
    let wish = port.wish();
    let holder = holder_beside(rank, wish, owners);
    if holder.is_some() || !used.insert((wish, port.protocol)) {
        return Choice::Substitute { kept: None, holder };
    }
    owners.insert(wish, Owner::Exposure(rank));
    if port.is_substitute && port.is_held() {
        Choice::Substitute { kept: Some(wish), holder: holder_beside(rank, port.hosted, owners) }
    } else {
        Choice::Preferred(wish)
    }
}

/// Who else has a port.
fn holder_beside(rank: &Rank, port: u16, owners: &BTreeMap<u16, Owner<'_>>) -> Option<String> {
    match owners.get(&port)? {
        Owner::Exposure(owner) if *owner == rank => None,
        other => Some(other.told()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rank(created: i64, name: &str) -> Rank {
        Rank { created, namespace: "clusters".to_owned(), name: name.to_owned() }
    }

    fn tcp(hosted: u16) -> PortClaim {
        PortClaim {
            protocol: Protocol::Tcp,
            hosted,
            asked: None,
            current: None,
            is_substitute: false,
        }
    }

    fn asking(hosted: u16, asked: u16) -> PortClaim {
        PortClaim { asked: Some(asked), ..tcp(hosted) }
    }

    fn claim(created: i64, name: &str, ports: Vec<PortClaim>) -> Claim {
        Claim { rank: rank(created, name), ports }
    }

    fn foreign(port: u16) -> BTreeMap<u16, String> {
        [(port, "Service shop/web".to_owned())].into()
    }

    fn verdict(
        claims: &[Claim],
        foreign: &BTreeMap<u16, String>,
        name: &str,
    ) -> Result<Vec<Choice>, Taken> {
        allocate(claims, foreign).into_iter().find(|(rank, _)| rank.name == name).unwrap().1
    }

    #[test]
    fn when_nothing_is_asked_the_hosted_port_is_preferred() {
        let claims = [claim(1, "a", vec![tcp(30001), tcp(30002)])];
        assert_eq!(
            verdict(&claims, &BTreeMap::new(), "a"),
            Ok(vec![Choice::Preferred(30001), Choice::Preferred(30002)])
        );
    }

    #[test]
    fn when_the_preferred_port_is_taken_another_one_is_chosen_and_the_holder_named() {
        let claims = [claim(1, "a", vec![tcp(30001)])];
        let holder = Some("Service shop/web".to_owned());
        assert_eq!(
            verdict(&claims, &foreign(30001), "a"),
            Ok(vec![Choice::Substitute { kept: None, holder }])
        );
    }

    #[test]
    fn when_the_asked_port_is_taken_the_exposure_is_refused_whole() {
        let claims = [claim(1, "a", vec![tcp(30005), asking(30001, 30001)])];
        assert_eq!(
            verdict(&claims, &foreign(30001), "a"),
            Err(Taken { port: 30001, holder: "Service shop/web".to_owned() })
        );
    }

    #[test]
    fn when_two_ask_for_one_port_the_older_gets_it() {
        let claims = [
            claim(20, "a", vec![asking(30001, 31000)]),
            claim(10, "b", vec![asking(30002, 31000)]),
        ];
        assert_eq!(verdict(&claims, &BTreeMap::new(), "b"), Ok(vec![Choice::Asked(31000)]));
        assert_eq!(
            verdict(&claims, &BTreeMap::new(), "a"),
            Err(Taken { port: 31000, holder: "ServiceExposure clusters/b".to_owned() })
        );
    }

    #[test]
    fn when_a_younger_one_holds_the_port_it_keeps_it() {
        let holding = PortClaim { current: Some(31000), ..asking(30001, 31000) };
        let claims = [claim(20, "a", vec![holding]), claim(10, "b", vec![asking(30002, 31000)])];
        assert_eq!(verdict(&claims, &BTreeMap::new(), "a"), Ok(vec![Choice::Asked(31000)]));
        assert!(verdict(&claims, &BTreeMap::new(), "b").is_err());
    }

    #[test]
    fn when_the_preferred_port_becomes_free_the_substitute_stays() {
        let kept = PortClaim { current: Some(31234), is_substitute: true, ..tcp(30001) };
        let claims = [claim(1, "a", vec![kept])];
        assert_eq!(
            verdict(&claims, &BTreeMap::new(), "a"),
            Ok(vec![Choice::Substitute { kept: Some(31234), holder: None }])
        );
    }

    #[test]
    fn one_number_serves_two_protocols_of_one_exposure() {
        let udp = PortClaim { protocol: Protocol::Udp, ..tcp(30053) };
        let claims = [claim(1, "a", vec![tcp(30053), udp])];
        assert_eq!(
            verdict(&claims, &BTreeMap::new(), "a"),
            Ok(vec![Choice::Preferred(30053), Choice::Preferred(30053)])
        );
    }

    #[test]
    fn what_is_asked_goes_before_what_is_preferred_within_one_exposure() {
        let claims = [claim(1, "a", vec![tcp(30002), asking(30001, 30002)])];
        assert_eq!(
            verdict(&claims, &BTreeMap::new(), "a"),
            Ok(vec![Choice::Substitute { kept: None, holder: None }, Choice::Asked(30002)])
        );
    }

    const PORTS: std::ops::Range<u16> = 30000..30006;

    fn any_port() -> impl Strategy<Value = PortClaim> {
        let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
        let optional = || proptest::option::of(PORTS);
        (protocol, PORTS, optional(), optional(), any::<bool>()).prop_map(
            |(protocol, hosted, asked, current, is_substitute)| PortClaim {
                protocol,
                hosted,
                asked,
                current,
                is_substitute: is_substitute && current.is_some(),
            },
        )
    }

    /// Claims as they can be: no exposure asks twice for one number and protocol, and a number is held once.
    fn any_claims() -> impl Strategy<Value = Vec<Claim>> {
        let one = (0_i64..3, proptest::collection::vec(any_port(), 1..4));
        proptest::collection::vec(one, 1..5).prop_map(|drawn| {
            let mut held = BTreeSet::new();
            let numbered = drawn.into_iter().enumerate();
            numbered
                .map(|(index, (created, ports))| {
                    let mut asked = BTreeSet::new();
                    let tidy = |mut port: PortClaim| {
                        port.asked = port.asked.filter(|n| asked.insert((*n, port.protocol)));
                        port.current = port.current.filter(|n| held.insert(*n));
                        port.is_substitute &= port.current.is_some();
                        port
                    };
                    claim(created, &format!("e{index}"), ports.into_iter().map(tidy).collect())
                })
                .collect()
        })
    }

    fn numbers(choices: &[Choice]) -> Vec<Option<u16>> {
        let number = |choice: &Choice| match choice {
            Choice::Asked(n) | Choice::Preferred(n) => Some(*n),
            Choice::Substitute { kept, .. } => *kept,
        };
        choices.iter().map(number).collect()
    }

    proptest! {
        #[test]
        fn the_order_of_the_question_does_not_matter(claims in any_claims()) {
            let mut turned = claims.clone();
            turned.reverse();
            prop_assert_eq!(allocate(&claims, &foreign(30003)), allocate(&turned, &foreign(30003)));
        }

        #[test]
        fn no_number_is_given_twice_and_none_of_a_foreign_service(claims in any_claims()) {
            let verdicts = allocate(&claims, &foreign(30003));
            let mut owners: BTreeMap<u16, &Rank> = BTreeMap::new();
            for claim in &claims {
                let Ok(choices) = &verdicts[&claim.rank] else { continue };
                let mut used = BTreeSet::new();
                for (port, number) in claim.ports.iter().zip(numbers(choices)) {
                    let Some(number) = number else { continue };
                    prop_assert_ne!(number, 30003);
                    prop_assert!(used.insert((number, port.protocol)));
                    prop_assert_eq!(*owners.entry(number).or_insert(&claim.rank), &claim.rank);
                }
            }
        }

        #[test]
        fn a_refusal_is_for_a_port_that_was_asked_for(claims in any_claims()) {
            for (rank, verdict) in allocate(&claims, &foreign(30003)) {
                if let Err(taken) = verdict {
                    let claim = claims.iter().find(|claim| claim.rank == rank).unwrap();
                    prop_assert!(claim.ports.iter().any(|port| port.asked == Some(taken.port)));
                }
            }
        }

        #[test]
        fn what_was_given_is_kept_when_asked_again(claims in any_claims()) {
            let first = allocate(&claims, &foreign(30003));
            let mut next = Vec::new();
            for mut claim in claims {
                let Ok(choices) = &first[&claim.rank] else { continue };
                for (port, choice) in claim.ports.iter_mut().zip(choices) {
                    (port.current, port.is_substitute) = match choice {
                        Choice::Asked(n) | Choice::Preferred(n) => (Some(*n), false),
                        Choice::Substitute { kept, .. } => (*kept, kept.is_some()),
                    };
                }
                next.push(claim);
            }
            let second = allocate(&next, &foreign(30003));
            for claim in &next {
                let before = numbers(first[&claim.rank].as_ref().unwrap());
                let Ok(after) = &second[&claim.rank] else {
                    return Err(TestCaseError::fail("an exposure that was served is refused"));
                };
                for (before, after) in before.into_iter().zip(numbers(after)) {
                    prop_assert!(before.is_none() || before == after);
                }
            }
        }
    }
}
