//! Text of others as a part of one line, for logs and messages.

use std::borrow::Cow;

/// The text with its control characters escaped, as `\n` or `\u{9b}`: it can neither begin another line nor talk to a
/// terminal.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if char.is_control() {
            line.extend(char.escape_debug());
        } else {
            line.push(char);
        }
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::one_line;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        let table = [
            ("", ""),
            ("a \"b\" \\ \u{e9}\u{1f600}", "a \"b\" \\ \u{e9}\u{1f600}"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\0\x1b[31m\x7f\u{9b}31m", "\\0\\u{1b}[31m\\u{7f}\\u{9b}31m"),
        ];
        for (text, line) in table {
            assert_eq!(one_line(text), line, "{text:?}");
        }
    }
}
