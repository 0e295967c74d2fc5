//! What can only be said when the whole configuration is read.

use super::{Config, ConfigError};
use crate::keys::{KeyPart, Source};
use crate::path::PathSettings;
use crate::rules::{Effect, Match};

impl Config {
    /// Brings paths into the spelling that requests' paths get, lets key parts inherit, and looks for what is missing
    /// elsewhere.
    pub(super) fn prepare(&mut self) -> Result<(), ConfigError> {
        if self.hash_key.is_some() && self.hash_key_env.is_some() {
            let message = "there is a `hash_key` too: leave one of them out".to_owned();
            return Err(ConfigError::Conflict { path: "hash_key_env".to_owned(), message });
        }
        for (number, rule) in self.rules.iter_mut().enumerate() {
            respell(&mut rule.matches, self.path, &format!("rules[{number}].match"))?;
            let Effect::Check(checks) = &mut rule.effect else { continue };
            for (check, spec) in checks.iter_mut().enumerate() {
                for (part, key) in spec.key.iter_mut().enumerate() {
                    let path = || format!("rules[{number}].checks[{check}].key[{part}]");
                    if key.hash && self.hash_key.is_none() && self.hash_key_env.is_none() {
                        let message = "a digest needs a `hash_key_env` or `hash_key`, beside `rules`".to_owned();
                        return Err(ConfigError::Conflict { path: format!("{}.hash", path()), message });
                    }
                    prepare_part(key, self.path, &self.client_ip).map_err(|message| ConfigError::Conflict {
                        path: format!("{}.template", path()),
                        message: message.to_owned(),
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn prepare_part(
    part: &mut KeyPart,
    path: PathSettings,
    client_ip: &crate::client_ip::ClientIpSettings,
) -> Result<(), &'static str> {
    match &mut part.source {
        Source::ClientIp(Some(settings)) => **settings = settings.or(client_ip),
        Source::Template(template) => *template = template.respell(|text| path.spell(text))?,
        _ => {}
    }
    Ok(())
}

fn respell(matches: &mut Match, settings: PathSettings, field: &str) -> Result<(), ConfigError> {
    if let Some(path) = &mut matches.path {
        *path = path
            .respell(settings)
            .map_err(|message| ConfigError::Conflict { path: format!("{field}.path"), message: message.to_owned() })?;
    }
    match &mut matches.not {
        Some(not) => respell(not, settings, &format!("{field}.not")),
        None => Ok(()),
    }
}
