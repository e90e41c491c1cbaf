//! Settings of hub access, read from the environment.

use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt, fs};

use crate::{Error, Listings, Result};

/// Settings of hub access. [`HubConfig::from_env`] reads the variables of `huggingface_hub`.
#[derive(Clone)]
pub struct HubConfig {
    /// Base URL of the hub (`HF_ENDPOINT`).
    pub endpoint: String,
    /// Access token (`HF_TOKEN`, else the token file). It is sent only to the endpoint's own
    /// scheme, host and port.
    pub token: Option<String>,
    /// Directory of the cache (`HF_HUB_CACHE`, else `hub` in `HF_HOME`).
    pub cache: PathBuf,
    /// Use nothing but the cache (`HF_HUB_OFFLINE`).
    pub offline: bool,
    /// Proxy of every connection (`HTTPS_PROXY` and its relatives).
    pub proxy: Option<ureq::Proxy>,
    /// Most retries in a row without progress.
    pub retries: u32,
    /// Pause before the first retry. It doubles with each further one, up to `timeout`.
    pub backoff: Duration,
    /// Longest time that a connection may take to open or stay silent.
    pub timeout: Duration,
    /// The hub's answers so far: it is asked once for the files of a revision. All settings from the
    /// environment share one.
    pub listings: Listings,
}

impl HubConfig {
    /// Reads the settings from the environment.
    ///
    /// # Errors
    /// [`Error::Hub`] when neither a variable nor a home directory locates the cache, [`Error::Io`]
    /// when the token file cannot be read.
    pub fn from_env() -> Result<Self> {
        let config = Self::from_vars(env::home_dir().as_deref(), |name| env::var(name).ok())?;
        Ok(Self { proxy: ureq::Proxy::try_from_env(), ..config })
    }

    fn from_vars(home: Option<&Path>, var: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let var = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        let flag = |name: &str| {
            var(name).is_some_and(|value| {
                matches!(value.to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true")
            })
        };
        let directory = |name: &str| {
            let value = var(name)?;
            Some(match (value.strip_prefix("~/"), home) {
                (Some(below), Some(home)) => home.join(below),
                _ => PathBuf::from(value),
            })
        };

        let hf_home = directory("HF_HOME")
            .or_else(|| Some(directory("XDG_CACHE_HOME")?.join("huggingface")))
            .or_else(|| Some(home?.join(".cache").join("huggingface")));
        let cache = directory("HF_HUB_CACHE")
            .or_else(|| Some(hf_home.as_ref()?.join("hub")))
            .ok_or_else(|| Error::Hub("no home directory to keep models in; set HF_HOME".into()))?;

        let token = match (var("HF_TOKEN"), hf_home) {
            _ if flag("HF_HUB_DISABLE_IMPLICIT_TOKEN") => None,
            (Some(token), _) => Some(token),
            (None, Some(home)) => read_token(&home.join("token"))?,
            (None, None) => None,
        };

        Ok(Self {
            endpoint: var("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            cache,
            offline: flag("HF_HUB_OFFLINE"),
            proxy: None,
            retries: 5,
            backoff: Duration::from_secs(1),
            timeout: Duration::from_secs(30),
            listings: Listings::of_process(),
        })
    }
}

/// Reads the token in `path`, or none if there is no such file or it is another user's: local and
/// public models need none.
fn read_token(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(token) => Ok(Some(token)),
        Err(error) if [NotFound, PermissionDenied].contains(&error.kind()) => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

impl fmt::Debug for HubConfig {
    /// Hides the token, which has no place in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubConfig")
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(vars: &[(&str, &str)]) -> HubConfig {
        let var = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        HubConfig::from_vars(Some(Path::new("/home/me")), var).unwrap()
    }

    #[test]
    fn the_most_specific_directory_wins() {
        let cache = |vars: &[(&str, &str)]| from(vars).cache;
        assert_eq!(cache(&[]), Path::new("/home/me/.cache/huggingface/hub"));
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(
            cache(&[("HF_HOME", "~/hf"), ("XDG_CACHE_HOME", "/x")]),
            Path::new("/home/me/hf/hub")
        );
        assert_eq!(cache(&[("HF_HUB_CACHE", "/s/c"), ("HF_HOME", "/h")]), Path::new("/s/c"));
        assert_eq!(cache(&[("HF_HUB_CACHE", "")]), Path::new("/home/me/.cache/huggingface/hub"));
        assert!(HubConfig::from_vars(None, |_| None).unwrap_err().to_string().contains("HF_HOME"));
    }

    #[test]
    fn the_token_comes_from_the_variable_then_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        assert_eq!(from(&[("HF_HOME", home)]).token, None);
        fs::write(dir.path().join("token"), "from-file\n").unwrap();
        assert_eq!(from(&[("HF_HOME", home)]).token.as_deref(), Some("from-file"));
        assert_eq!(
            from(&[("HF_HOME", home), ("HF_TOKEN", " mine ")]).token.as_deref(),
            Some("mine")
        );
        let shown = format!("{:?}", from(&[("HF_TOKEN", "secret")]));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn flags_and_endpoint() {
        assert_eq!(from(&[]).endpoint, "https://huggingface.co");
        assert!(from(&[("HF_HUB_OFFLINE", "True")]).offline);
        assert!(!from(&[("HF_HUB_OFFLINE", "0")]).offline);
    }
}
