//! Requests to the hub: redirects, the token, and the meaning of refusals.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use ureq::{Agent, Body};

use crate::id::{RepoId, is_commit, is_plain_path};
use crate::retries::{Failure, Retries};
use crate::{Error, HubConfig, Progress, Result};

/// Longest wait for an address or a connection: one that takes longer is rarely made at all.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters to escape in one part of a URL's path.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Characters to escape in several parts of a URL's path.
const PARTS: &AsciiSet = &PART.remove(b'/');

/// Longest list of a repository's files, in bytes. The largest real ones have about a megabyte.
const LISTING_LIMIT: u64 = 32 << 20;
/// Most redirects of one request.
const REDIRECT_LIMIT: usize = 8;

/// The files of one commit.
#[derive(Clone)]
pub(crate) struct Listing {
    pub commit: String,
    /// Relative paths without `..`, safe to write below a directory.
    pub names: Vec<String>,
}

/// Description of a file, asked for before its contents.
pub(crate) struct Metadata {
    /// Name of the contents, safe as a file name; a checksum on every real hub.
    pub etag: String,
    /// Length in bytes.
    pub size: u64,
}

/// A connection to the hub on behalf of one repository.
pub(crate) struct Client<'a> {
    pub id: &'a RepoId,
    pub progress: &'a dyn Progress,
    config: &'a HubConfig,
    endpoint: Uri,
    agent: Agent,
}

impl<'a> Client<'a> {
    pub fn new(config: &'a HubConfig, id: &'a RepoId, progress: &'a dyn Progress) -> Result<Self> {
        let endpoint = config.endpoint.trim_end_matches('/');
        let endpoint = parse_url(endpoint).ok_or_else(|| {
            Error::Hub(format!("HF_ENDPOINT: {endpoint:?} is not an http or https URL"))
        })?;
        if config.token.as_ref().is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(Error::Hub(
                "HF_TOKEN: the token holds characters that no token has".into(),
            ));
        }
        let agent = Agent::config_builder()
            .user_agent(concat!("isentrope/", env!("CARGO_PKG_VERSION")))
            // Compressed answers would hide lengths and break ranges.
            .accept_encoding("identity")
            .http_status_as_error(false)
            // Redirects are followed here, where it is known which hosts may see the token.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(config.proxy.clone())
            .timeout_resolve(Some(config.timeout.min(REACH_TIMEOUT)))
            .timeout_connect(Some(config.timeout.min(REACH_TIMEOUT)))
            .timeout_recv_response(Some(config.timeout))
            .timeout_per_read(Some(config.timeout))
            .timeout_per_write(Some(config.timeout))
            .build()
            .new_agent();
        Ok(Self { id, progress, config, endpoint, agent })
    }

    /// Asks for the commit that the revision stands for now, and its files.
    pub fn listing(&self, retries: u32) -> Result<Listing, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            sha: String,
            siblings: Vec<Sibling>,
        }
        #[derive(Deserialize)]
        struct Sibling {
            rfilename: String,
        }

        let path = format!(
            "/api/{}/{}/revision/{}",
            self.id.kind.plural(),
            self.id.repo,
            utf8_percent_encode(&self.id.revision, PART)
        );
        let mut attempts = Retries::new(self.config, self.progress, retries);
        let text = loop {
            match self.get(&path, 0).and_then(|answer| self.read_all(answer)) {
                Ok(text) => break text,
                Err(failure) => attempts.pause(failure)?,
            }
        };
        let answer: Answer =
            serde_json::from_slice(&text).map_err(|error| self.no_hub("", error.to_string()))?;
        if !is_commit(&answer.sha) {
            return Err(self.no_hub("", format!("sha {:?} is not a commit", answer.sha)));
        }
        let names: Vec<_> = answer.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        if let Some(name) = names.iter().find(|name| !is_plain_path(name)) {
            return Err(self.no_hub("", format!("it lists a file named {name:?}")));
        }
        Ok(Listing { commit: answer.sha, names })
    }

    fn no_hub(&self, subject: &str, what: String) -> Failure {
        let endpoint = &self.endpoint;
        self.id.error(format!("{subject}{endpoint} does not answer as a hub: {what}")).into()
    }

    fn read_all(&self, mut answer: Response<Body>) -> Result<Vec<u8>, Failure> {
        let body = answer.body_mut().with_config().limit(LISTING_LIMIT);
        body.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => self
                .id
                .error(format!(
                    "{} lists more than {LISTING_LIMIT} bytes of file names",
                    self.endpoint
                ))
                .into(),
            error => Failure::Transient(format!("{}: {error}", self.endpoint)),
        })
    }

    /// Asks for the etag and length of a commit's file.
    pub fn metadata(&self, commit: &str, name: &str) -> Result<Metadata, Failure> {
        let mut attempts = self.retries();
        let response = loop {
            // The hub's answer that redirects to a content server has the hub's etag. The content
            // server's own etag may be anything.
            match self.request(&Method::HEAD, &file_path(self.id, commit, name), 0) {
                Ok(response) => break response,
                Err(failure) => attempts.pause(failure)?,
            }
        };
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let subject = format!("{name}: ");
        if text("x-repo-commit") != Some(commit) {
            let what = "no X-Repo-Commit, or that of another commit";
            return Err(self.no_hub(&subject, what.to_owned()));
        }
        let etag = text("x-linked-etag").or(text("etag")).unwrap_or_default();
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        // The etag becomes a file name: it may have no separator, nor a dot as in `.incomplete`.
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_+=".contains(c);
        if etag.is_empty() || etag.len() > 200 || !etag.chars().all(is_safe) {
            return Err(self.no_hub(&subject, format!("ETag {etag:?} cannot name a file")));
        }
        let own_length =
            (!response.status().is_redirection()).then(|| text("content-length")).flatten();
        let size = text("x-linked-size").or(own_length).and_then(|size| size.parse().ok());
        let size = size
            .ok_or_else(|| self.no_hub(&subject, "the length of the file is missing".to_owned()))?;
        Ok(Metadata { etag: etag.to_owned(), size })
    }

    /// Opens a commit's file at byte `offset`. The answer may ignore the offset.
    pub fn open(&self, commit: &str, name: &str, offset: u64) -> Result<Response<Body>, Failure> {
        self.get(&file_path(self.id, commit, name), offset)
    }

    pub fn retries(&self) -> Retries<'_> {
        Retries::new(self.config, self.progress, self.config.retries)
    }

    fn get(&self, path: &str, offset: u64) -> Result<Response<Body>, Failure> {
        self.request(&Method::GET, path, offset)
    }

    /// Makes one attempt at a request and follows its redirects. A HEAD stops at the redirect that
    /// leaves the hub.
    fn request(&self, method: &Method, path: &str, offset: u64) -> Result<Response<Body>, Failure> {
        let url = format!("{}{path}", self.config.endpoint.trim_end_matches('/'));
        let mut url =
            parse_url(&url).ok_or_else(|| self.id.error(format!("{url:?} is not a URL")))?;
        for _ in 0..REDIRECT_LIMIT {
            let response = self.exchange(method, &url, offset)?;
            if !response.status().is_redirection() {
                return self.check(&url, response);
            }
            let location = response
                .headers()
                .get(header::LOCATION)
                .and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| join(&url, location));
            let next = next.ok_or_else(|| {
                self.id.error(format!(
                    "{}: redirects to {:?}",
                    origin(&url),
                    location.unwrap_or_default()
                ))
            })?;
            if is_https(&url) && !is_https(&next) {
                let what = format!(
                    "{} redirects to {}, which is not encrypted",
                    origin(&url),
                    origin(&next)
                );
                return Err(self.id.error(what).into());
            }
            let leaves = origin(&url) != origin(&next);
            if method == Method::HEAD && leaves && has_etag(response.headers()) {
                return Ok(response);
            }
            url = next;
        }
        Err(self.id.error(format!("{} redirects without end", origin(&url))).into())
    }

    fn exchange(&self, method: &Method, url: &Uri, offset: u64) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(url);
        if offset > 0 {
            request = request.header(header::RANGE, format!("bytes={offset}-"));
        }
        if let Some(token) = &self.config.token
            && origin(url) == origin(&self.endpoint)
        {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request =
            request.body(()).map_err(|error| self.id.error(format!("{}: {error}", origin(url))))?;
        self.agent.run(request).map_err(|error| {
            let what = format!("{}: {error}", origin(url));
            match error {
                ureq::Error::Io(_)
                | ureq::Error::Timeout(_)
                | ureq::Error::HostNotFound
                | ureq::Error::ConnectionFailed
                | ureq::Error::ConnectProxyFailed(_)
                | ureq::Error::Protocol(_) => Failure::Transient(what),
                _ => self.id.error(what).into(),
            }
        })
    }

    /// Turns a refusal into a failure with a remedy.
    fn check(&self, url: &Uri, response: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = response.status();
        // The caller handles a range beyond the end.
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(response);
        }
        let elsewhere = origin(url) != origin(&self.endpoint);
        let passing = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        if status.is_server_error() || passing.contains(&status) || elsewhere {
            // A content server refuses an expired link; the next attempt gets a fresh one.
            return Err(Failure::Transient(format!("{} answered {status}", origin(url))));
        }

        let code = response
            .headers()
            .get("x-error-code")
            .and_then(|code| code.to_str().ok())
            .unwrap_or_default();
        let endpoint = self.config.endpoint.trim_end_matches('/');
        let page = format!("{endpoint}{}", self.id.path());
        let noun = self.id.kind.noun();
        let what = match (status, code) {
            (StatusCode::NOT_FOUND, "RevisionNotFound") => {
                format!("the {noun} has no revision `{}`", self.id.revision)
            }
            (StatusCode::NOT_FOUND, "EntryNotFound") => format!("{}: no such file", url.path()),
            (_, "RepoNotFound") | (StatusCode::NOT_FOUND, _) => format!(
                "{}no such {noun} at {page}; check the spelling, or set HF_TOKEN if the {noun} is \
                 private",
                self.id.no_directory()
            ),
            (_, "GatedRepo") | (StatusCode::FORBIDDEN, _) => format!(
                "access is gated: accept the licence at {page} and set HF_TOKEN to a token of that \
                 account"
            ),
            (StatusCode::UNAUTHORIZED, _) if self.config.token.is_some() => format!(
                "{endpoint} refuses the token; set HF_TOKEN to a valid one, or remove it for public \
                 {noun}s"
            ),
            (StatusCode::UNAUTHORIZED, _) => format!(
                "no such public {noun} at {page}; check the spelling, or, if it is private or \
                 gated, accept the licence there and set HF_TOKEN"
            ),
            _ => format!("{endpoint} answered {status}"),
        };
        Err(self.id.error(what).into())
    }
}

fn file_path(id: &RepoId, commit: &str, name: &str) -> String {
    format!("{}/resolve/{commit}/{}", id.path(), utf8_percent_encode(name, PARTS))
}

fn has_etag(headers: &HeaderMap) -> bool {
    headers.contains_key("x-linked-etag") || headers.contains_key(header::ETAG)
}

/// Parses a URL of http or https.
fn parse_url(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    (matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some()).then_some(url)
}

/// The URL of a `Location` header: a whole URL, or a path on the same server.
fn join(url: &Uri, location: &str) -> Option<Uri> {
    let scheme = url.scheme_str()?;
    if location.starts_with("//") {
        parse_url(&format!("{scheme}:{location}"))
    } else if location.starts_with('/') {
        parse_url(&format!("{scheme}://{}{location}", url.authority()?))
    } else {
        parse_url(location)
    }
}

fn is_https(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// Scheme, host and port. Messages show only this part of a URL, because links to content servers
/// carry signatures.
fn origin(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let port = url.port_u16().filter(|&port| port != if is_https(url) { 443 } else { 80 });
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    port.map_or_else(|| format!("{scheme}://{host}"), |port| format!("{scheme}://{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_tell_servers_apart() {
        let origin = |url: &str| origin(&url.parse().unwrap());
        assert_eq!(origin("https://Hub.co/a"), origin("https://hub.co:443/b?c"));
        for other in
            ["http://hub.co", "https://hub.co:444", "https://hub.co.evil", "https://hub.co@evil"]
        {
            assert_ne!(origin("https://hub.co"), origin(other));
        }
    }
}
