//! The commands that ask a running sidecar: `policies`, `top`, `peek`, `inspect`, `reset` and `reload`.

use std::path::PathBuf;

use axum::http::Method;
use clap::Args;
use serde::de::DeserializeOwned;

use super::client::{self, Client, ClientError};
use super::text::{self, Told};
use super::{Forgotten, Inspection, Peeked, PolicyList, Reloaded};
use crate::top::Report;

/// What all of them take.
#[derive(Debug, Args)]
pub struct Access {
    /// The admin listener of the sidecar
    #[arg(long, value_name = "URL", env = "SLUICE_ADMIN", default_value = "http://127.0.0.1:8081")]
    admin: String,
    /// A file with the token that it wants, if it has an `admin.token_file`; of several tokens the first is shown
    #[arg(long, value_name = "FILE", env = "SLUICE_ADMIN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Print the answer as JSON, on one line
    #[arg(long)]
    json: bool,
}

/// Which key a command is about.
#[derive(Debug, Args)]
pub struct Which {
    /// The name of the policy
    policy: String,
    /// The parts of the key
    key: Vec<String>,
}

/// `sluice policies`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice policies
  sluice policies --json | jq '.policies[] | select(.shadow) | .name'

Exit codes: 0 told; 1 nobody answers, or not to you; 2 wrong usage.")]
pub struct PoliciesArgs {
    #[command(flatten)]
    access: Access,
}

/// `sluice top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice top
  sluice top --count 5 --json

Of the last 50 to 60 seconds. What filters answer by themselves (a denial that they remember, a lease that they spend) is
not seen by the sidecar. Where there are very many keys, a count is told as a range that it is in.

Exit codes: 0 told; 1 nobody answers, or not to you; 2 wrong usage.")]
pub struct TopArgs {
    /// How many keys of each kind, 1 to 100
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    count: u64,
    #[command(flatten)]
    access: Access,
}

/// `sluice peek`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice peek per-ip 203.0.113.7
  sluice peek per-user-and-method alice GET --cost 5
  sluice peek per-tenant acme --json | jq .allowed

Exit codes: 0 told, whether it would be allowed or denied (see the answer); 1 nobody can say; 2 wrong usage.")]
pub struct PeekArgs {
    #[command(flatten)]
    which: Which,
    /// What the check would take
    #[arg(long, default_value_t = 1)]
    cost: u64,
    #[command(flatten)]
    access: Access,
}

/// `sluice inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice inspect per-ip 203.0.113.7
  sluice inspect per-user-and-method alice GET
  sluice inspect --admin http://10.0.0.7:8081 --token-file token per-tenant acme

Exit codes: 0 told; 1 nobody can say; 2 wrong usage.")]
pub struct InspectArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    access: Access,
}

/// `sluice reset`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice reset per-tenant acme
  sluice reset per-user-and-method alice GET

The key's whole limit is there again, for all sidecars. Filters that remember its denial deny for up to a second more, or
what denial_cache.max_age says; tokens that they hold by lease stay theirs.

Exit codes: 0 nothing is kept of the key now, whether something was or not; 1 it could not be done; 2 wrong usage.")]
pub struct ResetArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    access: Access,
}

/// `sluice reload`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice validate --config sluice.yaml && sluice reload
  sluice reload --json | jq .generation

The sidecar looks at its file by itself as well; this tells at once what came of it.

Exit codes: 0 what is in the file is in force, but for what is told to need a restart; 1 the file is no good (file, line and
field are told, and what was before stays in force), or nobody answers; 2 wrong usage.")]
pub struct ReloadArgs {
    #[command(flatten)]
    access: Access,
}

impl PoliciesArgs {
    /// Asks, and returns what to print.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn run(&self) -> Result<String, ClientError> {
        self.access.tell::<PolicyList>(Method::GET, "/v1/policies").await
    }
}

impl TopArgs {
    /// Asks, and returns what to print.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn run(&self) -> Result<String, ClientError> {
        self.access.tell::<Report>(Method::GET, &format!("/v1/top?count={}", self.count)).await
    }
}

impl PeekArgs {
    /// Asks, and returns what to print.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn run(&self) -> Result<String, ClientError> {
        let path = self.which.path("/v1/peek");
        self.access.tell::<Peeked>(Method::GET, &format!("{path}?cost={}", self.cost)).await
    }
}

impl InspectArgs {
    /// Asks, and returns what to print.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn run(&self) -> Result<String, ClientError> {
        let path = self.which.path("/v1/keys");
        self.access.tell::<Inspection>(Method::GET, &path).await
    }
}

impl ResetArgs {
    /// Asks, and returns what to print.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn run(&self) -> Result<String, ClientError> {
        let path = self.which.path("/v1/keys");
        self.access.tell::<Forgotten>(Method::DELETE, &path).await
    }
}

impl ReloadArgs {
    /// Asks, and returns what to print.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn run(&self) -> Result<String, ClientError> {
        self.access.tell::<Reloaded>(Method::POST, "/v1/reload").await
    }
}

impl Which {
    /// Its path below that of a route.
    fn path(&self, route: &str) -> String {
        client::path(route, &self.policy, &self.key)
    }
}

impl Access {
    /// Asks, and puts the answer into words, or leaves it as it is.
    async fn tell<T: Told + DeserializeOwned>(&self, method: Method, path: &str) -> Result<String, ClientError> {
        let client = Client::new(&self.admin, self.token_file.as_deref())?;
        let body = client.ask(method, path).await?;
        if self.json {
            let text = std::str::from_utf8(&body).map_err(|_| client.foreign(path))?;
            return Ok(text::json(text) + "\n");
        }
        let answer: T = serde_json::from_slice(&body).map_err(|_| client.foreign(path))?;
        Ok(answer.text())
    }
}
