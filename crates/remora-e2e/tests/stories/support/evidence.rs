//! What is printed when a story fails: objects, events, pods and serial consoles.

use super::Lab;

/// Lines of each log that are printed.
const TAIL: &str = "--tail=60";

/// Prints what the hosting cluster says; what cannot be had is left out with the reason.
pub(crate) async fn print(lab: &Lab) {
    let calls: [&[&str]; 7] = [
        &["get", "hostedclusters,nodepools,serviceexposures", "-A", "-o", "yaml"],
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "virtualmachines,virtualmachineinstances", "-A", "-o", "wide"],
        &["get", "services,persistentvolumeclaims", "-A", "-o", "wide"],
        &["get", "events", "-A", "--sort-by=.lastTimestamp"],
        &["describe", "pods", "-A", "-l", "hypershift.openshift.io/control-plane-component"],
        &["logs", "-n", "remora", "deployment/remora-operator", "--tail=200"],
    ];
    for call in calls {
        show(lab, call).await;
    }
    for (namespace, pod) in launchers(lab).await {
        show(lab, &["logs", "-n", &namespace, &pod, "-c", "guest-console-log", TAIL]).await;
    }
}

async fn show(lab: &Lab, call: &[&str]) {
    println!("--- kubectl {}", call.join(" "));
    match lab.kubectl(call).await {
        Ok(text) => println!("{text}"),
        Err(error) => println!("{error:#}"),
    }
}

async fn launchers(lab: &Lab) -> Vec<(String, String)> {
    let template =
        "-o=jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}";
    let listed =
        lab.kubectl(&["get", "pods", "-A", "-l", "kubevirt.io=virt-launcher", template]).await;
    listed
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(namespace, pod)| (namespace.to_owned(), pod.to_owned()))
        .collect()
}
