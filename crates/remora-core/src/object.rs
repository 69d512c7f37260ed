//! Desired objects, as they are handed to whoever applies them.

use k8s_openapi::serde::Serialize;
use kube::core::DynamicObject;

/// Turns a typed object into the form in which every desired object is applied.
pub fn object<T: kube::Resource<DynamicType = ()> + Serialize>(typed: &T) -> DynamicObject {
    let mut value = serde_json::to_value(typed).expect("API types are plain data");
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), T::api_version(&()).into());
        fields.insert("kind".to_owned(), T::kind(&()).into());
        // A desired object never speaks about status: its fields belong to other writers.
        fields.remove("status");
    }
    serde_json::from_value(value).expect("every API type has type and metadata")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    #[test]
    fn when_a_typed_object_is_turned_it_keeps_type_and_fields() {
        let typed = ConfigMap {
            metadata: ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() },
            data: Some([("k".to_owned(), "v".to_owned())].into()),
            ..ConfigMap::default()
        };
        let turned = object(&typed);
        assert_eq!(
            serde_json::to_value(&turned).unwrap(),
            serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a"}, "data": {"k": "v"},
            })
        );
    }
}
