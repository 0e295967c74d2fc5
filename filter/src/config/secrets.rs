//! What stands in environment variables, because Envoy shows the plugin's configuration to whoever reaches its admin
//! interface.

use super::{Config, ConfigError};
use crate::keys::{HashKey, MIN_HASH_KEY};
use crate::token::Token;

impl Config {
    /// Takes the token and the key of digests from the environment, where `sidecar.token_env` and `hash_key_env` name
    /// variables.
    ///
    /// # Errors
    /// If there is no such variable, or if it doesn't hold what it should.
    pub fn read_secrets(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        if let Some(name) = &self.sidecar.token_env {
            let token = look_up(name, &variable)
                .and_then(|text| Token::parse(&text).map_err(|error| format!("the variable {name}: {error}")));
            self.sidecar.token = Some(token.map_err(|message| conflict("sidecar.token_env", message))?);
        }
        if let Some(name) = &self.hash_key_env {
            let key = look_up(name, &variable).and_then(|text| {
                let too_short = || format!("the variable {name}: a hash key has at least {MIN_HASH_KEY} bytes");
                HashKey::new(text.trim_end_matches(['\r', '\n']).as_bytes()).ok_or_else(too_short)
            });
            self.hash_key = Some(key.map_err(|message| conflict("hash_key_env", message))?);
        }
        Ok(())
    }
}

fn look_up(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    variable(name).filter(|text| !text.trim_ascii().is_empty()).ok_or_else(|| {
        format!(
            "the variable {name} is missing or empty: Envoy must have it, and the plugin's VM must be given it \
             (vm_config.environment_variables.host_env_keys, in Istio vmConfig.env with valueFrom: HOST)"
        )
    })
}

fn conflict(path: &str, message: String) -> ConfigError {
    ConfigError::Conflict { path: path.to_owned(), message }
}
