//! Requests to a package index and to the servers of its files.

use super::{CERTIFICATES_VARIABLE, INDEX_VARIABLE, Installer, Progress};
use crate::gpu::Error;
use isentrope_files::read_regular;
use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;
use ureq::http::{Request, Response, Uri, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

/// Longest time for a connection to open, and of its silence.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest file of certificates that is read, in bytes.
const MOST_CERTIFICATES: u64 = 16 << 20;

/// The HTTP client.
pub(super) struct Client<'a> {
    pub progress: &'a dyn Progress,
    /// The index, without a slash at its end.
    pub index: Uri,
    /// Retries of a request, at most.
    pub retries: u32,
    agent: Agent,
    pause: Duration,
}

/// Why a request failed.
pub(super) enum RequestError {
    /// A retry may succeed.
    Transient(String),
    /// A retry would fail alike.
    Permanent(Error),
}

impl RequestError {
    /// A failure after which a retry may succeed.
    pub fn transient(what: impl fmt::Display) -> Self {
        Self::Transient(what.to_string())
    }
}

impl<'a> Client<'a> {
    pub fn new(installer: &Installer, progress: &'a dyn Progress) -> Result<Self, Error> {
        let index = installer.index.trim_end_matches('/');
        let index: Uri = index
            .parse()
            .ok()
            .filter(|index: &Uri| index.host().is_some() && (is_https(index) || is_here(index)))
            .ok_or_else(|| {
                let what =
                    "is not the https URL of a package index, such as https://pypi.org/simple";
                Error::Install(format!("{INDEX_VARIABLE} {what}"))
            })?;
        let mut tls = TlsConfig::builder();
        if let Some(path) = &installer.certificates {
            let failed = |what: String| {
                Error::Install(format!("{CERTIFICATES_VARIABLE}: {}: {what}", path.display()))
            };
            let read = read_regular(path, MOST_CERTIFICATES).map_err(io::Error::from);
            let text = read.map_err(|error| failed(error.to_string()))?;
            let items = parse_pem(&text).filter_map(Result::ok);
            let certificates: Vec<_> = items
                .filter_map(|item| match item {
                    PemItem::Certificate(certificate) => Some(certificate),
                    _ => None,
                })
                .collect();
            if certificates.is_empty() {
                return Err(failed("no certificate is in it".into()));
            }
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
        }
        let agent = Agent::config_builder()
            .user_agent(concat!("isentrope/", env!("CARGO_PKG_VERSION")))
            // Compressed answers would hide lengths.
            .accept_encoding("identity")
            .http_status_as_error(false)
            .https_only(is_https(&index))
            .proxy(installer.proxy.clone())
            .tls_config(tls.build())
            .timeout_resolve(Some(TIMEOUT))
            .timeout_connect(Some(TIMEOUT))
            .timeout_recv_response(Some(TIMEOUT))
            .timeout_per_read(Some(TIMEOUT))
            .build()
            .new_agent();
        Ok(Self { progress, index, retries: installer.retries, agent, pause: installer.pause })
    }

    /// Requests a URL once.
    pub fn get(&self, url: &Uri, accept: &str) -> Result<Response<Body>, RequestError> {
        let place = origin(url);
        let request = Request::builder().uri(url).header(header::ACCEPT, accept).body(()).map_err(
            |error| RequestError::Permanent(Error::Install(format!("{place}: {error}"))),
        )?;
        let response = self
            .agent
            .run(request)
            .map_err(|error| RequestError::transient(format_args!("{place}: {error}")))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let what = format!("{place} answered {status} to {}", url.path());
        let is_transient = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
        Err(if is_transient {
            RequestError::Transient(what)
        } else {
            RequestError::Permanent(Error::Install(what))
        })
    }

    /// Makes an attempt, and retries it after a pause, up to this many times, while it fails in a
    /// way that may pass.
    pub fn persist<T>(
        &self,
        retries: u32,
        mut attempt: impl FnMut() -> Result<T, RequestError>,
    ) -> Result<T, Error> {
        let mut retry = 0;
        loop {
            let what = match attempt() {
                Ok(value) => return Ok(value),
                Err(RequestError::Permanent(error)) => return Err(error),
                Err(RequestError::Transient(what)) => what,
            };
            if retry == retries {
                let times = if retries == 1 { "retry" } else { "retries" };
                return Err(Error::Install(format!(
                    "{what} (after {retries} {times}); nothing was installed. Where there is no \
                     network, have `pip download` fetch the packages elsewhere, unpack the wheels, \
                     and name the directory of their libraries by ISENTROPE_CUDA_LIBRARIES"
                )));
            }
            let pause = self.pause * (1 << retry.min(5));
            retry += 1;
            self.progress.warn(&format!(
                "{what}; retry {retry} of {retries} in {:.0} s",
                pause.as_secs_f64()
            ));
            thread::sleep(pause);
        }
    }
}

/// The URL that a page of the index names: a whole URL, or a path relative to the page or to its
/// server.
pub(super) fn join(page: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next()?;
    let server = format!("{}://{}", page.scheme_str()?, page.authority()?);
    let text = if location.contains("://") {
        location.to_owned()
    } else if location.starts_with('/') {
        format!("{server}{location}")
    } else {
        let mut directory: Vec<&str> = page.path().trim_end_matches('/').split('/').collect();
        let mut rest = location;
        while let Some(above) = rest.strip_prefix("../") {
            directory.pop();
            rest = above;
        }
        format!("{server}{}/{rest}", directory.join("/"))
    };
    text.parse().ok().filter(|url: &Uri| url.host().is_some())
}

fn is_https(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// Whether a server is on this machine, so that nothing needs to be encrypted.
fn is_here(url: &Uri) -> bool {
    url.scheme_str() == Some("http")
        && matches!(url.host(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

/// The server of a request. Messages name only this part of a URL, because an index may be named
/// with a password.
fn origin(url: &Uri) -> String {
    let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_join() {
        let page: Uri = "https://user:secret@index.org/a/simple/name/".parse().unwrap();
        let joined = |location| join(&page, location).map(|url| url.to_string());
        assert_eq!(
            joined("https://files.org/x.whl#sha256=0").as_deref(),
            Some("https://files.org/x.whl")
        );
        assert_eq!(joined("/x.whl").as_deref(), Some("https://user:secret@index.org/x.whl"));
        assert_eq!(
            joined("../../files/x.whl").as_deref(),
            Some("https://user:secret@index.org/a/files/x.whl")
        );
        assert_eq!(
            joined("x.whl").as_deref(),
            Some("https://user:secret@index.org/a/simple/name/x.whl")
        );
        assert_eq!(origin(&page), "https://index.org");
    }
}
