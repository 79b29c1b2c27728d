//! A pass as someone types it. The system believes what it signed; a draw is
//! computed of any text, and a slip of the pen would get a place in line.

use anyhow::{Context, ensure};
use domain::PassId;

/// Hexadecimal digits of a pass id: 128 bits.
const LENGTH: usize = 32;

/// Reads a pass id of the form in which they are issued.
///
/// # Errors
/// It has another form.
pub fn read_pass(text: &str) -> anyhow::Result<PassId> {
    const EXPECTED: &str = "a pass id is 32 hexadecimal digits in lower case";
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    ensure!(text.len() == LENGTH && text.bytes().all(hex), EXPECTED);
    text.parse().context(EXPECTED)
}
