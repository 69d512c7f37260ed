//! JSON patches (RFC 6902) that users put on a NodePool to change its VirtualMachines.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Longest text of a patch, in bytes.
const TEXT_LIMIT: usize = 64 * 1024;
/// Most operations of a patch.
const OPERATIONS_LIMIT: usize = 256;
/// Most that a patch may put into a VirtualMachine, in bytes of JSON or so: `copy` could double it with every operation.
const GROWTH_LIMIT: usize = 256 * 1024;
/// Deepest that a patch may nest: whoever reads the object does it by recursion.
const DEPTH_LIMIT: usize = 64;

/// A patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The annotation is no JSON patch.
    #[error("the JSON patch cannot be read: {0}")]
    Unreadable(String),
    /// It is longer than anybody needs.
    #[error("the JSON patch has {found} {unit}: {limit} are allowed; make it shorter")]
    TooLong {
        /// How many there are.
        found: usize,
        /// Of what.
        unit: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// One operation does not fit the object.
    #[error(
        "operation {index} of the JSON patch ({operation} {path:?}) does not fit the VirtualMachine: {why}"
    )]
    DoesNotFit {
        /// Number of the operation, from zero.
        index: usize,
        /// Name of the operation.
        operation: &'static str,
        /// The path it names.
        path: String,
        /// Why it does not fit.
        why: &'static str,
    },
    /// What the patches left is no object.
    #[error("the JSON patch leaves no valid VirtualMachine: {0}")]
    NoObject(String),
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Operation {
    Add { path: String, value: Value },
    Remove { path: String },
    Replace { path: String, value: Value },
    Move { from: String, path: String },
    Copy { from: String, path: String },
    Test { path: String, value: Value },
}

impl Operation {
    fn name(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Replace { .. } => "replace",
            Self::Move { .. } => "move",
            Self::Copy { .. } => "copy",
            Self::Test { .. } => "test",
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Add { path, .. }
            | Self::Remove { path }
            | Self::Replace { path, .. }
            | Self::Move { path, .. }
            | Self::Copy { path, .. }
            | Self::Test { path, .. } => path,
        }
    }
}

/// Checks that a text is a JSON patch.
pub fn check_patch(text: &str) -> Result<(), PatchError> {
    parse(text).map(|_| ())
}

/// Applies a patch. Unlike RFC 6902, `add` makes the objects on its way that do not exist.
pub(super) fn apply_patch(target: &mut Value, text: &str) -> Result<(), PatchError> {
    let mut room = GROWTH_LIMIT;
    for (index, operation) in parse(text)?.into_iter().enumerate() {
        let (name, path) = (operation.name(), operation.path().to_owned());
        carry_out(target, operation, &mut room).map_err(|why| PatchError::DoesNotFit {
            index,
            operation: name,
            path,
            why,
        })?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Operation>, PatchError> {
    bounded(text.len(), "bytes", TEXT_LIMIT)?;
    let operations: Vec<Operation> =
        serde_json::from_str(text).map_err(|error| PatchError::Unreadable(error.to_string()))?;
    bounded(operations.len(), "operations", OPERATIONS_LIMIT)?;
    Ok(operations)
}

fn bounded(found: usize, unit: &'static str, limit: usize) -> Result<(), PatchError> {
    if found > limit { Err(PatchError::TooLong { found, unit, limit }) } else { Ok(()) }
}

/// Takes what a value needs from the room that is left, and refuses one that would lie too deep.
fn make_room(room: &mut usize, path: &str, value: &Value) -> Result<(), &'static str> {
    let path_depth = path.matches('/').count();
    if path_depth + depth(value) > DEPTH_LIMIT {
        return Err("it would be nested too deep");
    }
    *room = room
        .checked_sub(path.len() + weight(value))
        .ok_or("the VirtualMachine would become too large")?;
    Ok(())
}

/// How deep a value is nested.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// How large a value is, in bytes or so.
fn weight(value: &Value) -> usize {
    match value {
        Value::Array(items) => 2 + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
        Value::String(text) => 2 + text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

fn carry_out(
    target: &mut Value,
    operation: Operation,
    room: &mut usize,
) -> Result<(), &'static str> {
    match operation {
        Operation::Add { path, value } => {
            make_room(room, &path, &value)?;
            add(target, &path, value)
        }
        Operation::Remove { path } => remove(target, &path).map(|_| ()),
        Operation::Replace { path, value } => {
            make_room(room, &path, &value)?;
            *target.pointer_mut(&path).ok_or("there is nothing at this path")? = value;
            Ok(())
        }
        Operation::Move { from, path } => {
            let value = remove(target, &from)?;
            make_room(room, &path, &value)?;
            add(target, &path, value)
        }
        Operation::Copy { from, path } => {
            let value = target.pointer(&from).ok_or("there is nothing to copy")?;
            make_room(room, &path, value)?;
            let value = value.clone();
            add(target, &path, value)
        }
        Operation::Test { path, value } => match target.pointer(&path) {
            Some(found) if *found == value => Ok(()),
            _ => Err("the value is another one"),
        },
    }
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), &'static str> {
    let (parent, key) = split(path)?;
    match parent_of(target, parent)? {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let index = if key == "-" { items.len() } else { index(&key)? };
            if index > items.len() {
                return Err("the list is shorter");
            }
            items.insert(index, value);
        }
        _ => return Err("its parent is neither an object nor a list"),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, &'static str> {
    let (parent, key) = split(path)?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&key),
        Some(Value::Array(items)) => {
            let index = index(&key)?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    };
    removed.ok_or("there is nothing at this path")
}

/// Finds the parent of what is added and makes the objects on the way.
fn parent_of<'a>(target: &'a mut Value, path: &str) -> Result<&'a mut Value, &'static str> {
    let mut current = target;
    for token in path.split('/').skip(1) {
        let token = unescape(token);
        current = match current {
            Value::Object(fields) => {
                fields.entry(token).or_insert_with(|| Value::Object(Map::new()))
            }
            Value::Array(items) => {
                items.get_mut(index(&token)?).ok_or("a list on the way is shorter")?
            }
            _ => return Err("a value on the way is neither an object nor a list"),
        };
    }
    Ok(current)
}

fn split(path: &str) -> Result<(&str, String), &'static str> {
    let (parent, key) = path.rsplit_once('/').ok_or("a path begins with a slash")?;
    Ok((parent, unescape(key)))
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn index(token: &str) -> Result<usize, &'static str> {
    token.parse().map_err(|_| "a list is indexed by numbers")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(text: &str) -> Result<Value, PatchError> {
        let mut target = json!({"spec": {"list": [1, 2], "a/b": "x"}});
        apply_patch(&mut target, text).map(|()| target)
    }

    #[test]
    fn when_every_operation_is_used_the_object_is_as_asked() {
        let text = r#"[
            {"op": "test", "path": "/spec/a~1b", "value": "x"},
            {"op": "add", "path": "/spec/list/-", "value": 3},
            {"op": "add", "path": "/spec/list/0", "value": 0},
            {"op": "remove", "path": "/spec/list/1"},
            {"op": "replace", "path": "/spec/a~1b", "value": "y"},
            {"op": "copy", "from": "/spec/list", "path": "/copied"},
            {"op": "move", "from": "/spec/a~1b", "path": "/moved"},
            {"op": "add", "path": "/deep/er", "value": true}
        ]"#;
        assert_eq!(
            patched(text),
            Ok(json!({
                "spec": {"list": [0, 2, 3]}, "copied": [0, 2, 3], "moved": "y", "deep": {"er": true},
            }))
        );
    }

    #[test]
    fn when_an_operation_does_not_fit_the_error_names_it() {
        let error = patched(r#"[{"op": "remove", "path": "/spec/none"}]"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "operation 0 of the JSON patch (remove \"/spec/none\") does not fit the VirtualMachine: \
             there is nothing at this path"
        );
    }

    #[test]
    fn when_a_text_is_no_patch_it_is_refused() {
        for text in [
            "",
            "{}",
            r#"[{"path": "/a"}]"#,
            r#"[{"op": "add", "path": "/a"}]"#,
            r#"[{"op": "put", "path": "/a"}]"#,
        ] {
            assert!(matches!(check_patch(text), Err(PatchError::Unreadable(_))), "{text}");
        }
    }

    #[test]
    fn when_a_patch_would_grow_or_nest_without_bound_it_is_refused() {
        let operations = |one: &str, count| format!("[{}]", vec![one; count].join(","));
        let too_long = check_patch(&operations(r#"{"op":"remove","path":"/a"}"#, 257)).unwrap_err();
        assert_eq!(
            too_long.to_string(),
            "the JSON patch has 257 operations: 256 are allowed; make it shorter"
        );
        let text = format!(r#"[{{"op":"add","path":"/a","value":"{}"}}]"#, "x".repeat(TEXT_LIMIT));
        assert!(matches!(check_patch(&text), Err(PatchError::TooLong { unit: "bytes", .. })));

        let doubling = operations(r#"{"op":"copy","from":"/spec","path":"/spec/a"}"#, 70);
        let deep = format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(65));
        let wide = format!(
            r#"[{{"op":"add","path":"/spec/x","value":"{}"}},{}"#,
            "x".repeat(2000),
            operations(r#"{"op":"copy","from":"/spec/x","path":"/spec/list/-"}"#, 200)
                .trim_start_matches('[')
        );
        let why = |text: &str| match patched(text).unwrap_err() {
            PatchError::DoesNotFit { why, .. } => why,
            other => panic!("{other}"),
        };
        assert_eq!(why(&deep), "it would be nested too deep");
        assert_eq!(why(&doubling), "it would be nested too deep");
        assert_eq!(why(&wide), "the VirtualMachine would become too large");
    }
}
