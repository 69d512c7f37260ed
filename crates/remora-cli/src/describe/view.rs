//! The description of an exposure as text.

use super::path::{Description, Health, Hop};
use crate::output::columns;

/// Draws the way from outside to the pods, then the conditions.
pub(super) fn text(description: &Description) -> String {
    let origin = match &description.policy {
        Some(policy) => format!("made by ExposurePolicy {policy}"),
        None => "written by hand".to_owned(),
    };
    let mut text = format!(
        "ServiceExposure {}/{}, {origin}\nService {} of HostedCluster {}, by {}\n\n  outside\n  │\n",
        description.namespace,
        description.name,
        description.service,
        description.cluster,
        description.via,
    );
    for (index, hop) in description.path.iter().enumerate() {
        let is_last = index + 1 == description.path.len();
        text.push_str(&drawn(hop, is_last));
    }
    text.push('\n');
    if description.conditions.is_empty() {
        text.push_str("No condition is reported yet.\n");
        return text;
    }
    let row = |condition: &super::path::Verdict| {
        [&condition.type_, &condition.status, &condition.reason, &condition.message]
            .map(String::clone)
            .to_vec()
    };
    let rows: Vec<Vec<String>> = description.conditions.iter().map(row).collect();
    text + &columns(&["CONDITION", "STATUS", "REASON", "MESSAGE"], &rows)
}

fn drawn(hop: &Hop, is_last: bool) -> String {
    let (corner, margin) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
    let mut text = format!("  {corner} {}\n", hop.what);
    let names = hop.items.iter().map(|item| item.name.chars().count());
    let width = names.max().unwrap_or_default();
    for item in &hop.items {
        let mark = match item.health {
            Health::Well => '✓',
            Health::Broken => '✗',
            Health::Unknown => '?',
        };
        let line = format!("  {margin}   {mark} {:<width$}   {}", item.name, item.detail);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (what, said) in [("", &hop.gap), ("remedy: ", &hop.remedy)] {
        if let Some(said) = said {
            text.push_str(&format!("  {margin}   {what}{said}\n"));
        }
    }
    text
}
