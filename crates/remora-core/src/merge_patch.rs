//! JSON merge patches (RFC 7386): what to send so that one document becomes another.

use serde_json::{Map, Value};

/// The patch that makes `new` of `old`: all of `new`, and null for every field that is no longer there. Lists are
/// replaced whole.
pub fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let before = old.get(key).unwrap_or(&Value::Null);
        patch.insert(key.clone(), merge_patch(before, value));
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn when_a_field_is_gone_it_is_taken_away_and_lists_are_replaced() {
        let old = json!({ "a": 1, "b": { "c": 2, "d": 3 }, "list": [{ "x": 1 }] });
        let new = json!({ "b": { "d": 4 }, "list": [{ "y": 2 }], "e": { "f": 5 } });
        assert_eq!(
            merge_patch(&old, &new),
            json!({ "a": null, "b": { "c": null, "d": 4 }, "list": [{ "y": 2 }], "e": { "f": 5 } })
        );
    }

    #[test]
    fn when_there_was_nothing_the_patch_is_the_document() {
        let new = json!({ "a": { "b": [1] } });
        assert_eq!(merge_patch(&Value::Null, &new), new);
    }
}
