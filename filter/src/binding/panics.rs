//! A plugin that fails on demand, to see what Envoy then does. Only a build with the feature `panics-for-tests` has
//! this, and only an unoptimised one can be built with it, so that it can't be what is released.

use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;

#[cfg(not(debug_assertions))]
compile_error!("the feature `panics-for-tests` is not for a release: build without it");

/// Panics if the request has the header `x-panic-for-tests`.
pub fn if_asked() {
    let header = hostcalls::get_map_value_bytes(MapType::HttpRequestHeaders, "x-panic-for-tests");
    assert!(!matches!(header, Ok(Some(_))), "this request asks for it");
}
