//! URLs of the hub and of the servers that it sends on to.

use ureq::http::Uri;

/// A URL of a server that can be asked.
pub(super) fn parse_url(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    (matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some()).then_some(url)
}

/// The URL that a `Location` names: a whole URL, or a path on the same server.
pub(super) fn join(url: &Uri, location: &str) -> Option<Uri> {
    let scheme = url.scheme_str()?;
    if location.starts_with("//") {
        parse_url(&format!("{scheme}:{location}"))
    } else if location.starts_with('/') {
        parse_url(&format!("{scheme}://{}{location}", url.authority()?))
    } else {
        parse_url(location)
    }
}

/// Whether what passes is encrypted.
pub(super) fn is_https(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// Scheme, host and port: whom a request talks to. Messages name this much of a URL and no more, because links to
/// content servers carry signatures.
pub(super) fn origin(url: &Uri) -> String {
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
        let same = |a: &str, b: &str| origin(&a.parse().unwrap()) == origin(&b.parse().unwrap());
        assert!(same("https://Hub.co/a", "https://hub.co:443/b?c"));
        assert!(!same("https://hub.co", "http://hub.co"));
        assert!(!same("https://hub.co", "https://hub.co:444"));
        assert!(!same("https://hub.co", "https://hub.co.evil"));
        assert!(!same("https://hub.co", "https://hub.co@evil"));
    }

    #[test]
    fn locations_join() {
        let url = "https://hub.co:8/a/b".parse().unwrap();
        let joined = |location| join(&url, location).map(|url| url.to_string());
        assert_eq!(joined("/x?y").as_deref(), Some("https://hub.co:8/x?y"));
        assert_eq!(joined("//cdn/x").as_deref(), Some("https://cdn/x"));
        assert_eq!(joined("http://cdn/x").as_deref(), Some("http://cdn/x"));
        assert_eq!(joined("file:///etc/passwd"), None);
        assert_eq!(joined(""), None);
    }
}
