//! What can't be used is told at the start, by file and field.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::policies;
use crate::support::{Authority, Redis, Sidecar, assert_invariants};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_is_named() {
    let (redis, directory) = (Redis::start().await, TempDir::new().unwrap());
    let authority = Authority::new("test");
    let (one, other) = (authority.certificate("sluice"), authority.certificate("sluice"));
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let missing = directory.path().join("missing").display().to_string();
    let (cert, key) = (file("cert", &one.pem), file("key", &one.key));
    let (other_key, empty) = (file("other-key", &other.key), file("empty", ""));
    let secret = "0123456789abcdef and more";
    let (words, short) = (file("words", &format!("0123456789abcdef\n{secret}")), file("short", "secret"));
    let tls = |cert: &str, key: &str| json!({"tls": {"cert_file": cert, "key_file": key}});
    let mutual = |ca: &str| json!({"tls": {"cert_file": cert, "key_file": key, "client_ca_file": ca}});
    let auth = |file: &str| json!({"auth": {"token_file": file}});
    let table: [(Value, &str, &str, &str); 12] = [
        (auth(&missing), "auth.token_file", &missing, "cannot be read: No such file"),
        (auth(&empty), "auth.token_file", &empty, "there is no token in it"),
        (auth(&words), "auth.token_file", &words, "line 2: a token has 16"),
        (auth(&short), "auth.token_file", &short, "line 1: a token has 16"),
        (tls(&missing, &key), "tls.cert_file", &missing, "cannot be read: No such file"),
        (tls(&cert, &missing), "tls.key_file", &missing, "cannot be read: No such file"),
        (tls(&empty, &key), "tls.cert_file", &empty, "there is no certificate in it"),
        (tls(&key, &key), "tls.cert_file", &key, "there is no certificate in it"),
        (tls(&cert, &cert), "tls.key_file", &cert, "there is no private key in it"),
        (tls(&cert, &other_key), "tls.key_file", &other_key, "not the key of the certificate in tls.cert_file"),
        (mutual(&missing), "tls.client_ca_file", &missing, "cannot be read: No such file"),
        (mutual(&empty), "tls.client_ca_file", &empty, "there is no certificate in it"),
    ];
    let mut logs = Vec::new();
    for (more, field, path, problem) in table {
        let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &more);
        assert!(!sidecar.process.ended().await.success(), "{more}");
        let log = sidecar.process.log();
        assert!(log.contains(&format!("sluice: {field}: {path}: ")) && log.contains(problem), "{more}: {log}");
        logs.push(log);
    }
    assert_invariants(&redis, &mut [], &logs, &[secret]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_is_named_by_its_field() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let taken = format!("127.0.0.1:{}", sidecar.admin_port());
    for (more, field) in
        [(json!({"listen": taken}), "`listen`"), (json!({"admin": {"listen": taken}}), "`admin.listen`")]
    {
        let mut second = Sidecar::launch_for(redis.port(), &policies(), &more);
        assert!(!second.process.ended().await.success());
        let log = second.process.log();
        assert!(log.contains(&format!("cannot listen on {taken}")) && log.contains(field), "{log}");
    }
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
