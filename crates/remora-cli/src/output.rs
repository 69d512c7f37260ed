//! Everything that is printed: results on the standard output, prose on the standard error output.

use std::io::{ErrorKind, Write};

use clap::ValueEnum;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with more columns.
    Wide,
    /// One List as JSON.
    Json,
    /// One List as YAML.
    Yaml,
}

/// Prints text as it is; a reader that has seen enough is no failure.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Tells the user something that is no result.
pub(crate) fn note(text: &str) {
    // Prose that cannot be shown is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Shows why a command failed.
pub(crate) fn failure(failure: Failure) {
    note(&format!("{:?}", miette::Report::new(failure)));
}

/// Prints manifests as YAML documents, ready for `kubectl apply`.
pub(crate) fn manifests(objects: &[DynamicObject]) -> Result<(), Failure> {
    text(&rendered(objects)?)
}

/// Manifests as YAML documents.
pub(crate) fn rendered(objects: &[DynamicObject]) -> Result<String, Failure> {
    let mut documents = String::new();
    for object in objects {
        documents.push_str("---\n");
        documents.push_str(&document(object)?);
    }
    Ok(documents)
}

/// One manifest as a YAML document.
pub(crate) fn document(object: &DynamicObject) -> Result<String, Failure> {
    yaml(&tidy(object)?)
}

/// Prints a List as JSON or YAML.
pub(crate) fn list(objects: &[DynamicObject], format: ListFormat) -> Result<(), Failure> {
    let items: Vec<Value> = objects.iter().map(tidy).collect::<Result<_, _>>()?;
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    data(&list, format)
}

/// Prints a value as JSON or YAML.
pub(crate) fn data(value: &impl Serialize, format: ListFormat) -> Result<(), Failure> {
    match format {
        ListFormat::Json => {
            let value = serde_json::to_value(value).map_err(|source| Failure::Unreadable {
                object: "the description".to_owned(),
                source: Box::new(source),
            })?;
            text(&format!("{value:#}\n"))
        }
        ListFormat::Yaml => text(&yaml(value)?),
    }
}

/// How a List, or a value, is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
}

/// Prints aligned columns.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    text(&columns(headers, rows))
}

/// Aligned columns.
pub(crate) fn columns(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize, header: &str| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or_default().max(header.chars().count())
    };
    let widths: Vec<usize> =
        headers.iter().enumerate().map(|(column, header)| width(column, header)).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("   ").trim_end().to_owned() + "\n"
    };
    let head = line(headers.to_vec());
    rows.iter().fold(head, |text, row| text + &line(row.iter().map(String::as_str).collect()))
}

/// The object without what only the API server needs.
fn tidy(object: &DynamicObject) -> Result<Value, Failure> {
    let unreadable = |source: serde_json::Error| Failure::Unreadable {
        object: object.metadata.name.clone().unwrap_or_default(),
        source: Box::new(source),
    };
    let mut value = serde_json::to_value(object).map_err(unreadable)?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.retain(|_, field| !field.is_null());
    }
    Ok(value)
}

/// A value as YAML.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(value);
    let mut text = text.map_err(|source| Failure::Unreadable {
        object: "a manifest".to_owned(),
        source: Box::new(source),
    })?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "True"], ["cluster1", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            columns(&["NAME", "AVAILABLE"], &rows),
            "NAME       AVAILABLE\na          True\ncluster1\n"
        );
    }
}
