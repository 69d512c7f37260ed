//! The endpoints of the Service `default/kubernetes`: where pods inside the hosted cluster reach the API.
//!
//! The API server's own reconciler is off: it would write the address of its pod in the hosting cluster, which hosted
//! nodes need not reach. Each address family has a slice of its own.

use std::net::IpAddr;

use kube::core::DynamicObject;
use remora_api::labels;
use serde_json::json;

use super::Addons;
use crate::control_plane::from_json;

/// Builds the EndpointSlices.
pub fn objects(addons: &Addons) -> Vec<DynamicObject> {
    let (v4, v6): (Vec<&IpAddr>, Vec<&IpAddr>) =
        addons.api_addresses.iter().partition(|address| address.is_ipv4());
    [("kubernetes", "IPv4", v4), ("kubernetes-ipv6", "IPv6", v6)]
        .into_iter()
        .filter(|(_, _, addresses)| !addresses.is_empty())
        .map(|(name, family, addresses)| {
            from_json(json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {
                        labels::MANAGED_BY: labels::FIELD_MANAGER,
                        "kubernetes.io/service-name": "kubernetes",
                        "endpointslice.kubernetes.io/managed-by": labels::FIELD_MANAGER,
                    },
                },
                "addressType": family,
                "endpoints": addresses.iter()
                    .map(|address| json!({ "addresses": [address.to_string()], "conditions": { "ready": true } }))
                    .collect::<Vec<_>>(),
                "ports": [{ "name": "https", "port": addons.published.api.port, "protocol": "TCP" }],
            }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointSlice;

    use super::*;
    use crate::control_plane::testing::assert_is;
    use crate::hosted::testing::addons;

    #[test]
    fn when_the_endpoint_has_addresses_of_both_families_each_has_a_slice() {
        let mut addons = addons();
        addons.api_addresses.push("2001:db8::7".parse().unwrap());
        let objects = objects(&addons);
        objects.iter().for_each(assert_is::<EndpointSlice>);
        insta::assert_yaml_snapshot!(objects);
    }
}
