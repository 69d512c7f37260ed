//! The options of a node pool's machines: the same for `create nodepool` and `create cluster`.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Smallest root volume in GiB.
const SMALLEST_ROOT_VOLUME: u32 = 16;
/// Largest count of a host device, the API's limit.
const MOST_DEVICES: i64 = 2_147_483_647;

/// What the machines of a pool are like.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machines")]
pub(crate) struct PoolOptions {
    /// Memory of each machine.
    #[arg(long, default_value = "4Gi", value_name = "QUANTITY")]
    memory: String,
    /// Virtual cores of each machine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    cores: u32,
    /// Size of the root volume in GiB, 16 at least.
    #[arg(long, default_value_t = 32, value_name = "GIB")]
    root_volume_size: u32,
    /// StorageClass of the root volume [default: the hosting cluster's].
    #[arg(long, value_name = "NAME")]
    root_volume_storage_class: Option<String>,
    /// Access modes of the root volume, such as ReadWriteOnce,ReadWriteMany.
    #[arg(long, value_delimiter = ',', value_name = "MODES")]
    root_volume_access_modes: Vec<String>,
    /// Volume mode of the root volume.
    #[arg(long, value_enum, value_name = "MODE")]
    root_volume_volume_mode: Option<VolumeMode>,
    /// How the image of the root volume is cached.
    #[arg(long, value_enum, value_name = "STRATEGY")]
    root_volume_cache_strategy: Option<CacheStrategy>,
    /// Container disk image of the machines [default: the release's].
    #[arg(long, value_name = "IMAGE")]
    containerdisk: Option<String>,
    /// Queues per virtual processor on network interfaces.
    #[arg(long, value_enum, default_value = "Enable", value_name = "SETTING")]
    network_multiqueue: MultiQueue,
    /// Quality of service of the machines.
    #[arg(long, value_enum, default_value = "Burstable", value_name = "CLASS")]
    qos_class: QosClass,
    /// One more network, as name:<namespace>/<network attachment definition>; repeatable.
    #[arg(long = "additional-network", value_name = "name:NS/NAME")]
    additional_networks: Vec<String>,
    /// Attaches the machines to the hosting cluster's pod network.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    attach_default_network: bool,
    /// Labels of the hosting nodes that machines may run on, as key=value,...
    #[arg(long, value_delimiter = ',', value_name = "LABELS")]
    vm_node_selector: Vec<String>,
    /// Host device to attach, as <device>[,count:<number>]; repeatable.
    #[arg(long = "host-device-name", value_name = "DEVICE")]
    host_devices: Vec<String>,
}

/// Defines the words that an option takes; they are the API's.
macro_rules! words {
    (enum $name:ident { $($variant:ident => $word:literal),+ }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        enum $name { $(#[value(name = $word)] $variant),+ }

        impl $name {
            fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words! { enum VolumeMode { Block => "Block", Filesystem => "Filesystem" } }
words! { enum CacheStrategy { None => "None", Pvc => "PVC" } }
words! { enum MultiQueue { Enable => "Enable", Disable => "Disable" } }
words! { enum QosClass { Burstable => "Burstable", Guaranteed => "Guaranteed" } }

impl PoolOptions {
    /// The platform part of the NodePool's spec.
    pub(crate) fn platform(&self) -> Result<Value, Failure> {
        self.check()?;
        let mut kubevirt = json!({
            "rootVolume": self.root_volume(),
            "compute": {
                "memory": self.memory,
                "cores": self.cores,
                "qosClass": self.qos_class.word(),
            },
            "networkInterfaceMultiqueue": self.network_multiqueue.word(),
            "attachDefaultNetwork": self.attach_default_network,
        });
        let networks = self.networks()?;
        if !networks.is_empty() {
            kubevirt["additionalNetworks"] = json!(networks);
        }
        let selector = labels("--vm-node-selector", &self.vm_node_selector)?;
        if !selector.is_empty() {
            kubevirt["nodeSelector"] = json!(selector);
        }
        let devices = self
            .host_devices
            .iter()
            .map(|text| host_device(text))
            .collect::<Result<Vec<_>, _>>()?;
        if !devices.is_empty() {
            kubevirt["hostDevices"] = json!(devices);
        }
        Ok(json!({"type": "KubeVirt", "kubevirt": kubevirt}))
    }

    fn check(&self) -> Result<(), Failure> {
        if self.root_volume_size < SMALLEST_ROOT_VOLUME {
            return Err(Failure::Flag {
                flag: "--root-volume-size",
                problem: format!("{} GiB is too small for a node", self.root_volume_size),
                remedy: format!("give {SMALLEST_ROOT_VOLUME} or more."),
            });
        }
        if !is_quantity(&self.memory) {
            return Err(Failure::Flag {
                flag: "--memory",
                problem: format!("{:?} is no amount of memory", self.memory),
                remedy: "write a number with a unit, such as 4Gi or 4096Mi.".to_owned(),
            });
        }
        if !self.attach_default_network && self.additional_networks.is_empty() {
            return Err(Failure::Flag {
                flag: "--attach-default-network",
                problem: "without the pod network the machines have no network at all".to_owned(),
                remedy: "name one with --additional-network name:<namespace>/<name>.".to_owned(),
            });
        }
        Ok(())
    }

    fn root_volume(&self) -> Value {
        let mut persistent = json!({"size": format!("{}Gi", self.root_volume_size)});
        if let Some(class) = &self.root_volume_storage_class {
            persistent["storageClass"] = json!(class);
        }
        if !self.root_volume_access_modes.is_empty() {
            persistent["accessModes"] = json!(self.root_volume_access_modes);
        }
        if let Some(mode) = self.root_volume_volume_mode {
            persistent["volumeMode"] = json!(mode.word());
        }
        let mut volume = json!({"type": "Persistent", "persistent": persistent});
        if let Some(strategy) = self.root_volume_cache_strategy {
            volume["cacheStrategy"] = json!({"type": strategy.word()});
        }
        if let Some(image) = &self.containerdisk {
            volume["diskImage"] = json!({"containerDiskImage": image});
        }
        volume
    }

    fn networks(&self) -> Result<Vec<Value>, Failure> {
        let parse = |text: &String| match text.strip_prefix("name:") {
            Some(name) if name.split('/').filter(|part| !part.is_empty()).count() == 2 => {
                Ok(json!({"name": name}))
            }
            _ => Err(Failure::Flag {
                flag: "--additional-network",
                problem: format!("{text:?} names no network"),
                remedy: "write name:<namespace>/<network attachment definition>.".to_owned(),
            }),
        };
        self.additional_networks.iter().map(parse).collect()
    }
}

/// Reads `<device>[,count:<number>]`; without a count it is one device.
fn host_device(text: &str) -> Result<Value, Failure> {
    let wrong = |problem: String| Failure::Flag {
        flag: "--host-device-name",
        problem,
        remedy: "write <device> or <device>,count:<number>, with a number of 1 or more.".to_owned(),
    };
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    if name.is_empty() {
        return Err(wrong(format!("{text:?} names no device")));
    }
    let count = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(option), None) => option
            .strip_prefix("count:")
            .and_then(|number| number.parse::<i64>().ok())
            .filter(|number| (1..=MOST_DEVICES).contains(number))
            .ok_or_else(|| wrong(format!("{option:?} is no count")))?,
        (Some(_), Some(_)) => return Err(wrong(format!("{text:?} has too many parts"))),
    };
    Ok(json!({"deviceName": name, "count": count}))
}

/// Reads `key=value` entries.
pub(crate) fn labels(
    flag: &'static str,
    entries: &[String],
) -> Result<BTreeMap<String, String>, Failure> {
    let parse = |entry: &String| match entry.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::Flag {
            flag,
            problem: format!("{entry:?} is no key and value"),
            remedy: "write key=value, several with commas between.".to_owned(),
        }),
    };
    entries.iter().map(parse).collect()
}

/// Tells whether a text is a Kubernetes quantity above zero, as the API server will read it.
fn is_quantity(text: &str) -> bool {
    const UNITS: [&str; 14] =
        ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse::<f64>().is_ok_and(|number| number > 0.0) && UNITS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: PoolOptions,
    }

    fn platform(flags: &[&str]) -> Result<Value, Failure> {
        let words = ["test"].iter().chain(flags);
        Command::try_parse_from(words).unwrap().options.platform()
    }

    #[test]
    fn a_host_device_without_a_count_is_one_device() {
        let platform = platform(&[
            "--host-device-name=nvidia.com/A100",
            "--host-device-name=vendor/x,count:3",
        ])
        .unwrap();
        assert_eq!(
            platform["kubevirt"]["hostDevices"],
            json!([
                {"deviceName": "nvidia.com/A100", "count": 1},
                {"deviceName": "vendor/x", "count": 3},
            ])
        );
    }

    #[test]
    fn every_option_has_its_field() {
        let platform = platform(&[
            "--memory=6Gi",
            "--cores=3",
            "--root-volume-size=64",
            "--root-volume-storage-class=fast",
            "--root-volume-access-modes=ReadWriteOnce,ReadWriteMany",
            "--root-volume-volume-mode=Block",
            "--root-volume-cache-strategy=PVC",
            "--containerdisk=registry.example/node:1",
            "--network-multiqueue=Disable",
            "--qos-class=Guaranteed",
            "--additional-network=name:ns1/net1",
            "--attach-default-network=false",
            "--vm-node-selector=size=large,zone=b",
        ])
        .unwrap();
        insta::assert_yaml_snapshot!(platform);
        let pool: remora_api::node_pool::NodePoolPlatform =
            serde_json::from_value(platform.clone()).unwrap();
        assert_eq!(serde_json::to_value(pool).unwrap(), platform);
    }

    #[test]
    fn wrong_values_name_flag_and_remedy() {
        let told: Vec<String> = [
            ["--root-volume-size=8"],
            ["--memory=much"],
            ["--attach-default-network=false"],
            ["--additional-network=ns1/net1"],
            ["--vm-node-selector=large"],
            ["--host-device-name=x,3"],
            ["--host-device-name=x,count:0"],
            ["--host-device-name=,count:1"],
        ]
        .iter()
        .map(|flags| {
            let failure = platform(flags).unwrap_err();
            let help = miette::Diagnostic::help(&failure).unwrap().to_string();
            format!("{failure} -> {help}")
        })
        .collect();
        insta::assert_yaml_snapshot!(told);
    }

    #[test]
    fn words_that_are_none_are_refused_by_the_parser() {
        for flags in ["--cores=0", "--qos-class=Best", "--root-volume-volume-mode=block"] {
            assert!(Command::try_parse_from(["test", flags]).is_err(), "{flags}");
        }
    }
}
