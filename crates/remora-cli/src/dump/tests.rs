use std::collections::BTreeMap;
use std::io::Read;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::DynamicObject;

use super::folder::Folder;
use super::redact::redacted;
use super::*;
use crate::manifest;

fn objects(text: &str) -> Vec<DynamicObject> {
    manifest::from_yaml(text).unwrap()
}

/// What is confidential is so by name, wherever it stands.
const CONFIDENTIAL: &str = r#"
apiVersion: v1
kind: Secret
metadata:
  namespace: clusters-cluster1
  name: token
  managedFields: [{ manager: remora, operation: Apply }]
  labels: { team: a }
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"token":"confidential"}}'
    copier.example/content: confidential
    remora.dev/content-hash: 1a2b
type: Opaque
data: { token: Y29uZmlkZW50aWFs, confidential.key: Y29uZmlkZW50aWFs }
stringData: { other: confidential }
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: flags
  annotations: { kubectl.kubernetes.io/last-applied-configuration: '{}', kept: "yes" }
data: { flag: "on" }
---
apiVersion: apps/v1
kind: ControllerRevision
metadata: { name: revision-of-a-virtual-machine }
data:
  spec:
    template:
      spec:
        volumes:
        - { name: a, cloudInitNoCloud: { userData: confidential, networkDataBase64: Y29uZmlkZW50aWFs } }
        - { name: b, cloudInitNoCloud: { secretRef: { name: user-data }, networkData: { kept: 1 } } }
"#;

#[test]
fn what_is_confidential_is_left_out_and_all_else_is_kept() {
    let values: Vec<serde_json::Value> =
        objects(CONFIDENTIAL).iter().map(|object| redacted(object).unwrap()).collect();
    let text = serde_json::to_string(&values).unwrap();
    assert!(!text.contains("Y29uZmlkZW50aWFs"), "{text}");
    insta::assert_yaml_snapshot!(values);
}

#[test]
fn the_archive_has_what_was_written_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("someone-elses"), "file").unwrap();
    let mut folder = Folder::open(root.path()).unwrap();
    folder.objects("namespaces/a/core/secrets.yaml", &objects(CONFIDENTIAL)).unwrap();
    folder.objects("namespaces/a/core/none.yaml", &[]).unwrap();
    folder.text("namespaces/a/pods/b/c.log", "a line\n").unwrap();
    folder.problem("cannot list\nwidgets");
    let done = folder.close(true).unwrap();

    let place = root.path().display();
    assert_eq!(
        done.to_string(),
        format!(
            "3 files are in {place}, and packed in {place}/hypershift-dump.tar.gz; 1 things could not be read, see \
             problems.txt."
        )
    );
    let file = std::fs::File::open(root.path().join("hypershift-dump.tar.gz")).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut packed = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        packed.insert(name, text);
    }
    let names: Vec<&str> = packed.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["namespaces/a/core/secrets.yaml", "namespaces/a/pods/b/c.log", "problems.txt"]
    );
    assert_eq!(packed["problems.txt"], "cannot list widgets\n");
    for (name, text) in &packed {
        assert_eq!(&std::fs::read_to_string(root.path().join(name)).unwrap(), text);
    }
}

#[test]
fn without_problems_and_archive_there_is_neither() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(&root.path().join("new")).unwrap();
    folder.text("a.log", "a line\n").unwrap();
    let done = folder.close(false).unwrap();
    assert_eq!(done.to_string(), format!("1 files are in {}.", root.path().join("new").display()));
    assert_eq!(std::fs::read_dir(root.path().join("new")).unwrap().count(), 1);
}

#[test]
fn events_are_in_the_order_in_which_they_last_happened() {
    let events = objects(
        "
{ apiVersion: v1, kind: Event, metadata: { name: third }, eventTime: '2026-01-01T00:00:03.000000Z', lastTimestamp: null }
---
{ apiVersion: v1, kind: Event, metadata: { name: second }, firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:00:02Z' }
---
{ apiVersion: v1, kind: Event, metadata: { name: first, creationTimestamp: '2026-01-01T00:00:01Z' } }
",
    );
    let names: Vec<String> = gather::in_order(events).iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["first", "second", "third"]);
}

#[test]
fn only_containers_that_have_run_are_asked_for_a_log() {
    let status = |name: &str, restarts: i32, state: &str| {
        format!(
            "  - {{ name: {name}, image: a, imageID: '', ready: false, restartCount: {restarts}, state: {state} }}\n"
        )
    };
    let pod: Pod = serde_saphyr::from_str(&format!(
        "
metadata: {{ name: a }}
status:
  initContainerStatuses:
{}  containerStatuses:
{}{}{}",
        status("prepares", 0, "{ terminated: { exitCode: 0 } }"),
        status("runs", 0, "{ running: {} }"),
        status("starts-again", 3, "{ waiting: { reason: CrashLoopBackOff } }"),
        status("pulls", 0, "{ waiting: { reason: ImagePullBackOff } }"),
    ))
    .unwrap();
    let expected = [("prepares", 0), ("runs", 0), ("starts-again", 3)];
    let expected = expected.map(|(name, restarts)| (name.to_owned(), restarts));
    assert_eq!(gather::containers(&pod), expected.into());
}
