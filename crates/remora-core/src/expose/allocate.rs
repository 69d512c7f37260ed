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
//! users have been told does not move because the preferred one becomes free. An exposure with a range of its own stays
//! inside it: the hosting API server knows nothing of that range, so that the lowest free port is named here.
//!
//! Kubernetes allocates a number once, whatever the protocol; only one Service may use it for several protocols.

use std::collections::{BTreeMap, BTreeSet};

use remora_api::service_exposure::{PortRange, Protocol};

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
    /// Where its node ports must lie; none: anywhere.
    pub range: Option<PortRange>,
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
    /// Another one, because the preferred one cannot be had.
    Substitute {
        /// The one that it is; none: the hosting API server chooses.
        kept: Option<u16>,
        /// Why not the preferred one.
        cause: Cause,
    },
}

/// Why a port does not get its preferred node port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Someone else has it, or had it.
    InUse {
        /// Who, as far as it is known.
        holder: Option<String>,
    },
    /// It lies outside the range that is allowed.
    OutsideRange {
        /// The range (`30000-32767`).
        range: String,
    },
}

/// Why an exposure does not get its node ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// A node port that was asked for is not to be had.
    Taken {
        /// The port.
        port: u16,
        /// Who has it.
        holder: String,
    },
    /// No port of the exposure's range is free.
    Exhausted {
        /// The range.
        range: PortRange,
    },
}

impl PortClaim {
    /// The port that this claim is for; none: any of the range.
    fn wish(&self, range: Option<PortRange>) -> Option<u16> {
        if self.asked.is_some() {
            return self.asked;
        }
        let is_allowed = |port: &u16| range.is_none_or(|range| range.contains(*port));
        let kept = self.current.filter(|_| self.is_substitute).filter(is_allowed);
        kept.or(Some(self.hosted)).filter(is_allowed)
    }

    /// It has what it wishes for.
    fn is_held(&self, range: Option<PortRange>) -> bool {
        self.current.is_some() && self.current == self.wish(range)
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
) -> BTreeMap<Rank, Result<Vec<Choice>, Unavailable>> {
    let mut in_line: Vec<&Claim> = claims.iter().collect();
    in_line.sort_by(|a, b| a.rank.cmp(&b.rank));

    let mut owners: Owners<'_> =
        foreign.iter().map(|(port, holder)| (*port, Owner::Foreign(holder))).collect();
    for claim in &in_line {
        let held = claim.ports.iter().filter(|port| port.is_held(claim.range));
        for wish in held.filter_map(|port| port.wish(claim.range)) {
            owners.entry(wish).or_insert(Owner::Exposure(&claim.rank));
        }
    }
    in_line
        .into_iter()
        .map(|claim| (claim.rank.clone(), allocate_one(claim, &mut owners)))
        .collect()
}

/// Who has which node port.
type Owners<'a> = BTreeMap<u16, Owner<'a>>;

fn allocate_one<'a>(claim: &'a Claim, owners: &mut Owners<'a>) -> Result<Vec<Choice>, Unavailable> {
    for port in claim.ports.iter().filter_map(|port| port.asked) {
        if let Some(holder) = holder_beside(&claim.rank, port, owners) {
            return Err(Unavailable::Taken { port, holder });
        }
    }
    // Within one Service a number is free once per protocol; what is asked for goes before what is preferred.
    let mut used: Used = BTreeSet::new();
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
        claim.ports.iter().zip(&mut choices).partition(|(port, _)| port.is_held(claim.range));
    for (port, choice) in held.into_iter().chain(wished) {
        if choice.is_none() {
            *choice = Some(choose(claim, port, &mut used, owners)?);
        }
    }
    Ok(choices.into_iter().flatten().collect())
}

/// The ports of one exposure that have been given out.
type Used = BTreeSet<(u16, Protocol)>;

fn choose<'a>(
    claim: &'a Claim,
    port: &PortClaim,
    used: &mut Used,
    owners: &mut Owners<'a>,
) -> Result<Choice, Unavailable> {
    let rank = &claim.rank;
    let is_free = |number: u16, used: &Used, owners: &Owners<'_>| {
        holder_beside(rank, number, owners).is_none() && !used.contains(&(number, port.protocol))
    };
    let wish = port.wish(claim.range).filter(|wish| is_free(*wish, used, owners));
    let kept = match (wish, claim.range) {
        (None, None) => None,
        (Some(wish), _) => Some(wish),
        (None, Some(range)) => {
            let free = (range.first..=range.last).find(|number| is_free(*number, used, owners));
            Some(free.ok_or(Unavailable::Exhausted { range })?)
        }
    };
    let cause = cause(claim, port, owners);
    if let Some(number) = kept {
        used.insert((number, port.protocol));
        owners.insert(number, Owner::Exposure(rank));
        if number == port.hosted {
            return Ok(Choice::Preferred(number));
        }
    }
    Ok(Choice::Substitute { kept, cause })
}

fn cause(claim: &Claim, port: &PortClaim, owners: &Owners<'_>) -> Cause {
    match claim.range {
        Some(range) if !range.contains(port.hosted) => {
            Cause::OutsideRange { range: range.to_string() }
        }
        _ => Cause::InUse { holder: holder_beside(&claim.rank, port.hosted, owners) },
    }
}

/// Who else has a port.
fn holder_beside(rank: &Rank, port: u16, owners: &Owners<'_>) -> Option<String> {
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
        Claim { rank: rank(created, name), range: None, ports }
    }

    fn foreign(port: u16) -> BTreeMap<u16, String> {
        [(port, "Service shop/web".to_owned())].into()
    }

    fn verdict(
        claims: &[Claim],
        foreign: &BTreeMap<u16, String>,
        name: &str,
    ) -> Result<Vec<Choice>, Unavailable> {
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
        let cause = Cause::InUse { holder: Some("Service shop/web".to_owned()) };
        assert_eq!(
            verdict(&claims, &foreign(30001), "a"),
            Ok(vec![Choice::Substitute { kept: None, cause }])
        );
    }

    #[test]
    fn when_the_asked_port_is_taken_the_exposure_is_refused_whole() {
        let claims = [claim(1, "a", vec![tcp(30005), asking(30001, 30001)])];
        assert_eq!(
            verdict(&claims, &foreign(30001), "a"),
            Err(Unavailable::Taken { port: 30001, holder: "Service shop/web".to_owned() })
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
            Err(Unavailable::Taken {
                port: 31000,
                holder: "ServiceExposure clusters/b".to_owned()
            })
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
            Ok(vec![Choice::Substitute {
                kept: Some(31234),
                cause: Cause::InUse { holder: None }
            }])
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
            Ok(vec![
                Choice::Substitute { kept: None, cause: Cause::InUse { holder: None } },
                Choice::Asked(30002)
            ])
        );
    }

    #[test]
    fn when_a_range_is_given_the_lowest_free_port_of_it_is_named_and_kept() {
        let range = PortRange { first: 31000, last: 31001 };
        let within = |port| Claim { range: Some(range), ..claim(1, "a", vec![port]) };
        let cause = Cause::OutsideRange { range: "31000-31001".to_owned() };
        let chosen = |kept| Ok(vec![Choice::Substitute { kept: Some(kept), cause: cause.clone() }]);
        assert_eq!(verdict(&[within(tcp(30001))], &BTreeMap::new(), "a"), chosen(31000));
        assert_eq!(verdict(&[within(tcp(30001))], &foreign(31000), "a"), chosen(31001));
        let kept = PortClaim { current: Some(31001), is_substitute: true, ..tcp(30001) };
        assert_eq!(verdict(&[within(kept)], &BTreeMap::new(), "a"), chosen(31001));
        let preferred = Ok(vec![Choice::Preferred(31001)]);
        assert_eq!(verdict(&[within(tcp(31001))], &BTreeMap::new(), "a"), preferred);
    }

    #[test]
    fn when_the_range_moves_away_from_a_port_another_is_chosen() {
        let range = PortRange { first: 31000, last: 31001 };
        let kept = PortClaim { current: Some(32000), is_substitute: true, ..tcp(30001) };
        let claims = [Claim { range: Some(range), ..claim(1, "a", vec![kept]) }];
        let choices = verdict(&claims, &BTreeMap::new(), "a").unwrap();
        assert_eq!(numbers(&choices), [Some(31000)]);
    }

    #[test]
    fn when_a_range_is_full_the_exposure_is_refused() {
        let range = PortRange { first: 31000, last: 31000 };
        let claims = [Claim { range: Some(range), ..claim(1, "a", vec![tcp(30001), tcp(30002)]) }];
        let full = Err(Unavailable::Exhausted { range });
        assert_eq!(verdict(&claims, &BTreeMap::new(), "a"), full);
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
        let ranges = prop_oneof![
            Just(None),
            (PORTS, 0_u16..4)
                .prop_map(|(first, more)| Some(PortRange { first, last: first + more })),
        ];
        let one = (0_i64..3, ranges, proptest::collection::vec(any_port(), 1..4));
        proptest::collection::vec(one, 1..5).prop_map(|drawn| {
            let mut held = BTreeSet::new();
            let numbered = drawn.into_iter().enumerate();
            numbered
                .map(|(index, (created, range, ports))| {
                    let mut asked = BTreeSet::new();
                    let tidy = |mut port: PortClaim| {
                        port.asked = port
                            .asked
                            .filter(|n| range.is_none_or(|range| range.contains(*n)))
                            .filter(|n| asked.insert((*n, port.protocol)));
                        port.current = port.current.filter(|n| held.insert(*n));
                        port.is_substitute &= port.current.is_some();
                        port
                    };
                    let ports = ports.into_iter().map(tidy).collect();
                    Claim { range, ..claim(created, &format!("e{index}"), ports) }
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
                    prop_assert!(claim.range.is_none_or(|range| range.contains(number)));
                    prop_assert!(used.insert((number, port.protocol)));
                    prop_assert_eq!(*owners.entry(number).or_insert(&claim.rank), &claim.rank);
                }
            }
        }

        #[test]
        fn a_refusal_is_for_a_port_that_was_asked_for(claims in any_claims()) {
            for (rank, verdict) in allocate(&claims, &foreign(30003)) {
                let claim = claims.iter().find(|claim| claim.rank == rank).unwrap();
                match verdict {
                    Ok(_) => {}
                    Err(Unavailable::Taken { port, .. }) => {
                        prop_assert!(claim.ports.iter().any(|known| known.asked == Some(port)));
                    }
                    Err(Unavailable::Exhausted { range }) => {
                        prop_assert_eq!(claim.range, Some(range));
                    }
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
