//! Key parts as text: any bytes in, UTF-8 without control characters out, distinct for distinct bytes.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Values longer than this many bytes are replaced by their digest.
pub const MAX_PART: usize = 1024;

/// One key part. A `%`, every byte of a control character and every byte that is no part of valid UTF-8
/// become `%` and two hex digits. A value of more than [`MAX_PART`] bytes becomes `%sha256:` and 64 hex digits; like
/// [`MISSING_PART`](crate::wire::MISSING_PART), no other value can look like that.
pub fn part(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    if raw.len() > MAX_PART {
        text.push_str("%sha256:");
        for byte in Sha256::digest(raw) {
            let _ = write!(text, "{byte:02x}"); // a String takes everything
        }
        return text;
    }
    for chunk in raw.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '%' => escape(&mut text, b'%'),
                char if char.is_control() => {
                    for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                        escape(&mut text, byte);
                    }
                }
                char => text.push(char),
            }
        }
        for &byte in chunk.invalid() {
            escape(&mut text, byte);
        }
    }
    text
}

fn escape(text: &mut String, byte: u8) {
    let _ = write!(text, "%{byte:02X}"); // a String takes everything
}
