//! When a certificate has to be issued anew.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Credential;
use super::plan::Leaf;

/// A certificate is renewed when this part of its life is left: one third, four months of a year. What serves with it
/// is restarted then, so it is not done more often than needed, and early enough to be noticed when it fails.
const RENEW_WITH_LEFT: i64 = 3;

/// Why a certificate has to be issued anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// There is none, or what there is cannot be read.
    Missing,
    /// It runs out.
    Expiring,
    /// It names other hosts or another subject than it should.
    Different,
    /// Another authority than the present one has signed it.
    OtherAuthority,
}

/// Tells whether an authority has to be made: only when there is none, because a new one locks out every node.
pub fn authority_due(existing: Option<&Credential>) -> Option<Due> {
    let certificate = existing.and_then(|credential| parsed(&credential.certificate, |_| ()));
    certificate.is_none().then_some(Due::Missing)
}

/// Tells whether a certificate has to be issued, and why.
pub fn leaf_due(
    existing: Option<&Credential>,
    leaf: &Leaf,
    authority: &Credential,
    now: Timestamp,
) -> Option<Due> {
    let Some(existing) = existing else { return Some(Due::Missing) };
    let Some(signer) =
        parsed(&authority.certificate, |certificate| certificate.public_key().raw.to_vec())
    else {
        return Some(Due::OtherAuthority);
    };
    parsed(&existing.certificate, |certificate| {
        if !is_signed_by(certificate, &signer) {
            return Some(Due::OtherAuthority);
        }
        if !is_as_planned(certificate, leaf) {
            return Some(Due::Different);
        }
        (renewal_of(certificate) <= now.as_second()).then_some(Due::Expiring)
    })
    .unwrap_or(Some(Due::Missing))
}

/// When a certificate will be due for renewal; none if it cannot be read.
pub fn renew_at(certificate_pem: &str) -> Option<Timestamp> {
    parsed(certificate_pem, renewal_of).and_then(|second| Timestamp::from_second(second).ok())
}

fn renewal_of(certificate: &X509Certificate<'_>) -> i64 {
    let validity = certificate.validity();
    let (start, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    end.saturating_sub(end.saturating_sub(start) / RENEW_WITH_LEFT)
}

fn is_signed_by(certificate: &X509Certificate<'_>, signer_public_key: &[u8]) -> bool {
    let Ok((_, key)) = x509_parser::x509::SubjectPublicKeyInfo::from_der(signer_public_key) else {
        return false;
    };
    certificate.verify_signature(Some(&key)).is_ok()
}

fn is_as_planned(certificate: &X509Certificate<'_>, leaf: &Leaf) -> bool {
    let common_name =
        certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let (names, addresses) = hosts_of(certificate);
    common_name == Some(leaf.common_name.as_str())
        && names == leaf.dns_names
        && addresses == leaf.addresses
}

fn hosts_of(certificate: &X509Certificate<'_>) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let mut names = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    for host in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
        match host {
            GeneralName::DNSName(name) => {
                names.insert((*name).to_owned());
            }
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
                addresses.extend(v4.or(v6).ok());
            }
            _ => {}
        }
    }
    (names, addresses)
}

fn parsed<T>(certificate_pem: &str, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let (_, pem) = parse_x509_pem(certificate_pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Some(read(&certificate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::issue::{issue_authority, issue_leaf, tests::new_key};
    use crate::pki::plan::{Authority, Names, leaves};

    const DAY: i64 = 86_400;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * DAY).unwrap()
    }

    fn api_server_leaf(host: &str) -> Leaf {
        let names = Names {
            namespace: "clusters-demo".to_owned(),
            api_hosts: vec![host.to_owned()],
            ..Names::default()
        };
        leaves(&names).remove(0)
    }

    #[test]
    fn when_a_certificate_is_fresh_it_is_left_alone() {
        let leaf = api_server_leaf("192.0.2.7");
        let authority = issue_authority(Authority::Root, "demo", new_key(), at(0)).unwrap();
        let issued = issue_leaf(&leaf, &authority, new_key(), at(0)).unwrap();
        assert_eq!(leaf_due(Some(&issued), &leaf, &authority, at(0)), None);
        assert_eq!(leaf_due(Some(&issued), &leaf, &authority, at(240)), None);
    }

    #[test]
    fn when_a_third_of_its_life_is_left_it_is_renewed() {
        let leaf = api_server_leaf("192.0.2.7");
        let authority = issue_authority(Authority::Root, "demo", new_key(), at(0)).unwrap();
        let issued = issue_leaf(&leaf, &authority, new_key(), at(0)).unwrap();
        assert_eq!(leaf_due(Some(&issued), &leaf, &authority, at(245)), Some(Due::Expiring));
        assert!(renew_at(&issued.certificate).unwrap() < at(245));
    }

    #[test]
    fn when_the_published_address_changes_it_is_issued_anew() {
        let leaf = api_server_leaf("192.0.2.7");
        let authority = issue_authority(Authority::Root, "demo", new_key(), at(0)).unwrap();
        let issued = issue_leaf(&leaf, &authority, new_key(), at(0)).unwrap();
        let other = api_server_leaf("192.0.2.9");
        assert_eq!(leaf_due(Some(&issued), &other, &authority, at(0)), Some(Due::Different));
    }

    #[test]
    fn when_the_authority_is_another_it_is_issued_anew() {
        let leaf = api_server_leaf("192.0.2.7");
        let authority = issue_authority(Authority::Root, "demo", new_key(), at(0)).unwrap();
        let issued = issue_leaf(&leaf, &authority, new_key(), at(0)).unwrap();
        let other = issue_authority(Authority::Root, "demo", new_key(), at(0)).unwrap();
        assert_eq!(leaf_due(Some(&issued), &leaf, &other, at(0)), Some(Due::OtherAuthority));
    }

    #[test]
    fn when_an_authority_exists_it_is_never_replaced() {
        let authority = issue_authority(Authority::Etcd, "demo", new_key(), at(0)).unwrap();
        assert_eq!(authority_due(Some(&authority)), None);
        assert_eq!(authority_due(None), Some(Due::Missing));
    }

    /// The validity of a certificate, in seconds since the epoch.
    fn validity(credential: &Credential) -> std::ops::RangeInclusive<i64> {
        parsed(&credential.certificate, |certificate| {
            let validity = certificate.validity();
            validity.not_before.timestamp()..=validity.not_after.timestamp()
        })
        .unwrap()
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

        /// Passes come at random times, as far apart as the timer lets them be (a day) or far closer.
        #[test]
        fn certificates_are_renewed_without_a_gap_and_never_needlessly(
            steps in proptest::collection::vec((1_i64..400, 0_i64..DAY), 1..12),
        ) {
            let leaf = api_server_leaf("192.0.2.7");
            let mut now = at(0);
            let authority = issue_authority(Authority::Root, "demo", new_key(), now).unwrap();
            let mut current = issue_leaf(&leaf, &authority, new_key(), now).unwrap();
            for (days, late) in steps {
                let due_at = renew_at(&current.certificate).unwrap();
                let wanted = now.as_second() + days * DAY;
                // Nobody comes earlier than wanted; whoever waits for the renewal comes at most a day late.
                let second = wanted.min(due_at.as_second() + late);
                now = Timestamp::from_second(second).unwrap();
                let now_second = now.as_second();
                proptest::prop_assert!(validity(&current).contains(&now_second), "a gap at {now}");
                let due = leaf_due(Some(&current), &leaf, &authority, now);
                proptest::prop_assert_eq!(due, (due_at <= now).then_some(Due::Expiring));
                if due.is_some() {
                    let next = issue_leaf(&leaf, &authority, new_key(), now).unwrap();
                    proptest::prop_assert!(validity(&next).contains(&now_second));
                    // Whoever still holds the old one is served until it has taken the new one.
                    proptest::prop_assert!(*validity(&current).end() > now_second + 100 * DAY);
                    proptest::prop_assert!(validity(&next).end() > validity(&current).end());
                    proptest::prop_assert_eq!(leaf_due(Some(&next), &leaf, &authority, now), None);
                    current = next;
                }
                // The bundle holds one authority, the same for old and new: both are trusted all the time.
                proptest::prop_assert_eq!(authority_due(Some(&authority)), None);
                proptest::prop_assert!(validity(&authority).contains(&now_second));
            }
        }
    }
}
