//! Each way in which a file becomes another one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use super::{policies, put, until_limit, with};
use crate::support::{Client, Port, Process, Redis, Sidecar, assert_invariants, eventually, sluice};

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_replace_a_file_is_seen() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies(1)).await;
    let (file, text) = (sidecar.config_file(), |count| with(&sidecar, &policies(count)).to_string());

    let new = text(2);
    fs::write(&file, new).unwrap();
    until_limit("written in place", &sidecar, 2).await;

    put(&sidecar, &text(3));
    until_limit("renamed over", &sidecar, 3).await;

    let new = text(4);
    fs::remove_file(&file).unwrap();
    fs::write(&file, new).unwrap();
    until_limit("removed and made again", &sidecar, 4).await;

    // As editors keep a copy of what was there.
    let new = text(5);
    fs::rename(&file, file.with_extension("yaml~")).unwrap();
    fs::write(&file, new).unwrap();
    until_limit("moved away and made again", &sidecar, 5).await;

    assert_eq!(sidecar.process.log().matches("the configuration was read again").count(), 4);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// A kubelet writes a directory of its own for each version, to which `..data` leads, and the file is a link into that:
/// neither the file nor its directory is touched when the version changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_config_map_is_seen() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies(1)).await;
    let (file, text) = (sidecar.config_file(), |count| with(&sidecar, &policies(count)).to_string());
    let directory = file.parent().unwrap();
    let version = |name: &str, text: &str| {
        fs::create_dir(directory.join(name)).unwrap();
        fs::write(directory.join(name).join("sluice.yaml"), text).unwrap();
        symlink(name, directory.join("..data_tmp")).unwrap();
        fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    };
    let texts: Vec<String> = (1..4).map(text).collect();
    version("..1", &texts[0]);
    symlink(Path::new("..data").join("sluice.yaml"), directory.join("link")).unwrap();
    fs::rename(directory.join("link"), &file).unwrap();
    for (before, count) in [("..1", 2), ("..2", 3)] {
        version(&format!("..{count}"), &texts[count - 1]);
        fs::remove_dir_all(directory.join(before)).unwrap();
        until_limit("the link leads elsewhere", &sidecar, count as u64).await;
    }
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// `sluice serve --config <(decrypt sluice.yaml)`: what can be read once only is not looked at, and nothing waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_read_once() {
    let (directory, port, admin) = (tempfile::tempdir().unwrap(), Port::free(), Port::free());
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = json!({
        "listen": format!("127.0.0.1:{}", port.number()),
        "admin": {"listen": format!("127.0.0.1:{}", admin.number())},
        "drain": "0s",
        "policies": policies(1),
    });
    let (to, text) = (pipe.clone(), text.to_string());
    let writer = std::thread::spawn(move || fs::write(to, text).unwrap());
    let log = directory.path().join("log");
    let mut process = Process::start("sluice", Command::new(sluice()).arg("serve").arg("--config").arg(&pipe), log);
    let client = Client::new();
    process.until_ready(async || client.is_ready(port.number(), "/readyz").await).await;
    writer.join().unwrap();
    process.signal(Signal::HUP);
    eventually("who asks is told", async || process.log().contains("it is no file").then_some(())).await;
    let config = client.get(port.number(), "/readyz", &[]).await.json()["config"].clone();
    assert_eq!(config["generation"], 1, "{config}");
    assert!(client.post(port.number(), "/v1/check/p/k", "").await.is_allowed());
    process.signal(Signal::TERM);
    assert!(process.ended().await.success());
}
