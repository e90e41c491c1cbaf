//! Versions of a package in an index: the JSON form of Python's "simple" interface (PEP 691).

use super::Package;
use super::client::{Client, RequestError, join};
use crate::gpu::Error;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::Read;
use ureq::http::Uri;

const JSON: &str = "application/vnd.pypi.simple.v1+json";
/// Most bytes of a page. Real ones have some tens of thousands.
const PAGE_LIMIT: u64 = 32 << 20;
/// Most bytes of a wheel.
const WHEEL_LIMIT: u64 = 2 << 30;

/// A wheel to fetch.
#[derive(Debug)]
pub(super) struct Wheel {
    /// The file's name, without any directory.
    pub file: String,
    /// The package's name as file names spell it.
    pub package: String,
    /// The name of the directory for its libraries.
    pub directory: String,
    pub version: String,
    pub url: Uri,
    /// In lowercase.
    pub sha256: String,
    /// Bytes, if the index gives them.
    pub size: Option<u64>,
}

#[derive(Deserialize)]
struct Page {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    url: String,
    hashes: HashMap<String, String>,
    size: Option<u64>,
    /// False, true, or the reason.
    #[serde(default)]
    yanked: serde_json::Value,
}

/// The latest wheel of a package for this machine.
pub(super) fn latest(client: &Client<'_>, package: Package) -> Result<Wheel, Error> {
    let page: Uri = format!("{}/{}/", client.index.to_string().trim_end_matches('/'), package.name)
        .parse()
        .map_err(|error| Error::Install(format!("{}: {error}", package.name)))?;
    // A server that cannot be reached for the first request is rarely there a moment later.
    let text = client.persist(client.retries.min(1), || read(client, &page))?;
    let listed: Page = serde_json::from_slice(&text).map_err(|error| {
        let what = format!(
            "the index does not answer in the form of PEP 691 about {}: {error}",
            package.name
        );
        Error::Install(what)
    })?;
    choose(&page, listed.files, package, std::env::consts::ARCH).ok_or_else(|| {
        Error::Install(format!(
            "the index has no wheel of {} {} for Linux on {}",
            package.name,
            package.major,
            std::env::consts::ARCH
        ))
    })
}

fn read(client: &Client<'_>, page: &Uri) -> Result<Vec<u8>, RequestError> {
    let response = client.get(page, JSON)?;
    let mut text = Vec::new();
    let mut body = response.into_body().into_reader().take(PAGE_LIMIT + 1);
    body.read_to_end(&mut text).map_err(RequestError::transient)?;
    if text.len() as u64 > PAGE_LIMIT {
        return Err(RequestError::Permanent(Error::Install("the index's page is too long".into())));
    }
    Ok(text)
}

/// The wheel of the highest version that has a hash, is for this architecture, and is neither
/// yanked nor a preview.
fn choose(page: &Uri, files: Vec<File>, package: Package, architecture: &str) -> Option<Wheel> {
    let spelled = package.name.replace('-', "_");
    let candidates = files.into_iter().filter_map(|file| {
        let parts: Vec<&str> = file.filename.strip_suffix(".whl")?.split('-').collect();
        let (name, version, platform) = (*parts.first()?, *parts.get(1)?, *parts.last()?);
        let numbers: Vec<u32> =
            version.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let fits =
            |tag: &str| tag.starts_with("manylinux") && tag.ends_with(&format!("_{architecture}"));
        let is_plain = file
            .filename
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let is_current =
            matches!(&file.yanked, serde_json::Value::Null | serde_json::Value::Bool(false));
        let sha256 = file.hashes.get("sha256")?.to_ascii_lowercase();
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_sane = is_plain && is_hash && file.size.is_none_or(|size| size <= WHEEL_LIMIT);
        let is_wanted = name == spelled
            && numbers.first() == Some(&package.major)
            && platform.split('.').any(fits);
        let wheel = Wheel {
            package: spelled.clone(),
            directory: format!("{spelled}-{version}"),
            version: version.to_owned(),
            url: join(page, &file.url)?,
            sha256,
            size: file.size,
            file: file.filename.clone(),
        };
        (is_sane && is_current && is_wanted).then_some((numbers, wheel))
    });
    candidates.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, wheel)| wheel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_latest_version_for_the_machine_is_chosen() {
        let page: Uri = "https://index.org/simple/nvidia-cuda-nvrtc/".parse().unwrap();
        let tag = "py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64";
        let file = |name: String, yanked: serde_json::Value| {
            json!({ "filename": name, "url": format!("../../f/{name}"), "size": 5, "yanked": yanked,
                    "hashes": { "sha256": "AB".repeat(32) }, "requires-python": ">=3" })
        };
        let named =
            |version: &str| file(format!("nvidia_cuda_nvrtc-{version}-{tag}.whl"), json!(false));
        let other = "nvidia_cuda_nvrtc-13.13.1-py3-none";
        let listed = json!({ "files": [
            named("13.2.86"),
            named("13.10.7"),
            named("13.11.2rc1"),
            named("14.0.1"),
            named("13.9.99"),
            file(format!("nvidia_cuda_nvrtc-13.12.1-{tag}.whl"), json!("broken")),
            file(format!("{other}-win_amd64.whl"), json!(false)),
            file(format!("{other}-manylinux2014_aarch64.whl"), json!(false)),
            file("nvidia_cuda_nvrtc-0.0.1.tar.gz".into(), json!(false)),
            file(format!("other-13.13.1-{tag}.whl"), json!(false)),
        ]});
        let choose = |listed: &serde_json::Value, architecture| {
            let page_of: Page = serde_json::from_value(listed.clone()).unwrap();
            choose(&page, page_of.files, Package::of(13)[0], architecture)
        };
        let wheel = choose(&listed, "x86_64").unwrap();
        assert_eq!((wheel.version.as_str(), wheel.size), ("13.10.7", Some(5)));
        assert_eq!(wheel.directory, "nvidia_cuda_nvrtc-13.10.7");
        assert_eq!(
            wheel.url.to_string(),
            format!("https://index.org/f/nvidia_cuda_nvrtc-13.10.7-{tag}.whl")
        );
        assert_eq!(wheel.sha256, "ab".repeat(32));
        assert_eq!(choose(&listed, "aarch64").unwrap().version, "13.13.1");
        assert!(choose(&listed, "riscv64").is_none());
        // Names that would leave the directory, and files without a hash.
        for (field, value) in [
            ("filename", json!(format!("nvidia_cuda_nvrtc-13.99.1-py3-none-/../x-{tag}.whl"))),
            ("hashes", json!({ "md5": "00" })),
            ("hashes", json!({ "sha256": "../../x" })),
            ("size", json!(3_u64 << 30)),
        ] {
            let mut hostile = named("13.99.1");
            hostile[field] = value;
            assert!(choose(&json!({ "files": [hostile] }), "x86_64").is_none(), "{field}");
        }
    }
}
