//! Runs the machine's own programs (`ip`, `nft`, `nsenter`, …) to their end.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::error::LabError;

/// The most that an error message quotes of a program's output.
const QUOTED_BYTES: usize = 2000;

/// Runs a program and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, LabError> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LabError::Start { program: program.to_owned(), source })?;
    finished(program, arguments, &output)
}

/// Runs a program that reads `input` and returns what it printed.
pub(crate) fn run_with_input(
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<String, LabError> {
    let start = |source| LabError::Start { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early closes its input; its exit status says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(start)?;
    finished(program, arguments, &output)
}

/// Whether a program ends with success; a program that is missing does not.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn finished(program: &str, arguments: &[&str], output: &Output) -> Result<String, LabError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    }
    Err(LabError::Command {
        command: format!("{program} {}", arguments.join(" ")),
        status: output.status.to_string(),
        output: tail(&said, QUOTED_BYTES).to_owned(),
    })
}

/// The last `bytes` of a text, cut at a character.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_program_fails_the_error_quotes_what_it_said() {
        let error = run("sh", &["-c", "echo why >&2; exit 3"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c echo why >&2; exit 3` failed with exit status: 3: why"
        );
    }

    #[test]
    fn when_a_text_is_cut_it_is_cut_at_a_character() {
        assert_eq!(tail("aé", 1), "");
        assert_eq!(tail("aé", 2), "é");
        assert_eq!(tail("ab", 9), "ab");
    }

    #[test]
    fn when_input_is_given_the_program_reads_it() {
        assert_eq!(run_with_input("cat", &[], "text").unwrap(), "text");
    }
}
