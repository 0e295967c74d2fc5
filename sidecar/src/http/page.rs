//! The page of the admin listener. Its files are part of the program, so that it works wherever that does.
//!
//! They hold no secret and need no token: it is what they ask for that does.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::IntoResponse;
use axum::routing::get;

use super::App;

/// Nothing from elsewhere, nothing inline, no frames; and no text that becomes markup, whatever keys hold: browsers that
/// know of trusted types refuse to parse any.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // They are small, and a page that doesn't fit its sidecar would be a riddle.
    (header::CACHE_CONTROL, "no-store"),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page, by its name in `sidecar/src/page/`.
macro_rules! file {
    ($name:literal, $content_type:ident) => {
        (concat!("/page/", $name), $content_type, include_str!(concat!("../page/", $name)))
    };
}

/// Path, content type and text of each file.
const FILES: [(&str, &str, &str); 18] = [
    ("/", HTML, include_str!("../page/index.html")),
    file!("icon.svg", SVG),
    file!("page.css", CSS),
    file!("forms.css", CSS),
    file!("page.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("events.js", SCRIPT),
    file!("history.js", SCRIPT),
    file!("key.js", SCRIPT),
    file!("latency.js", SCRIPT),
    file!("lookup.js", SCRIPT),
    file!("policies.js", SCRIPT),
    file!("requests.js", SCRIPT),
    file!("state.js", SCRIPT),
    file!("top.js", SCRIPT),
    file!("words.js", SCRIPT),
];

/// The routes of the page's files.
pub(super) fn routes() -> Router<Arc<App>> {
    FILES.into_iter().fold(Router::new(), |router, (path, content_type, text)| {
        let answer = move || async move { (HEADERS, [(header::CONTENT_TYPE, content_type)], text).into_response() };
        router.route(path, get(answer))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A file that nobody serves would be missed only where it is asked for.
    #[test]
    fn every_file_of_the_page_is_served() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> =
            files.filter(|name| name != "index.html").map(|name| format!("/page/{name}")).collect();
        let served: BTreeSet<String> = FILES[1..].iter().map(|(path, ..)| (*path).to_owned()).collect();
        assert_eq!(files, served);
    }

    /// Such would be refused by the policy, in the browser only.
    #[test]
    fn nothing_is_inline_or_from_elsewhere() {
        for (path, _, text) in FILES {
            for word in ["style=\"", "onclick", "onload", "<style", "javascript:", "innerHTML", "//cdn", "https://"] {
                assert!(!text.contains(word), "{path}: {word}");
            }
        }
    }
}
