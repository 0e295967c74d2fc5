//! Query parameters and cookies.

use std::borrow::Cow;

use crate::path;

/// The values of a query parameter, decoded, from the query as it was sent.
pub fn query<'a>(query: &'a [u8], name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    query.split(|&byte| byte == b'&').filter_map(move |pair| {
        let mut halves = pair.splitn(2, |&byte| byte == b'=');
        let is_it = decode(halves.next()?).as_ref() == name.as_bytes();
        // A parameter may be there without a value; what stands between two `&` is none.
        (is_it && !pair.is_empty()).then(|| decode(halves.next().unwrap_or_default()))
    })
}

/// As forms are decoded: `+` is a space. A `%` without two hexadecimal digits behind it is one.
fn decode(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.iter().all(|byte| !b"+%".contains(byte)) {
        return Cow::Borrowed(raw);
    }
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        decoded.push(match (byte, path::escaped(after)) {
            (b'+', _) => b' ',
            (b'%', Some(byte)) => {
                rest = after.get(2..).unwrap_or_default();
                byte
            }
            (byte, _) => byte,
        });
    }
    Cow::Owned(decoded)
}

/// The values of a cookie in one `cookie` header.
pub fn cookies<'a>(header: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    header.split(|&byte| byte == b';').filter_map(move |pair| {
        let mut halves = pair.splitn(2, |&byte| byte == b'=');
        let is_it = halves.next()?.trim_ascii() == name.as_bytes();
        halves.next().filter(|_| is_it).map(<[u8]>::trim_ascii)
    })
}
