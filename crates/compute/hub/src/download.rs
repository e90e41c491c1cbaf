//! Downloads one file from the hub into the cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use isentrope_files::{Digest, put_in_place};
use ureq::http::{Response, StatusCode, header};

use crate::cache::RepoCache;
use crate::client::{Client, Metadata};
use crate::id::is_hex;
use crate::retries::Failure;
use crate::{Error, Result};

/// Bytes per read, and so per report of progress.
const CHUNK: usize = 128 << 10;

/// Downloads the commit's file `name` into the cache, unless it is there.
pub(crate) fn fetch(
    client: &Client<'_>,
    cache: &RepoCache,
    commit: &str,
    name: &str,
) -> Result<()> {
    if cache.has(commit, name) {
        return Ok(());
    }
    let metadata =
        client.metadata(commit, name).map_err(|failure| failure.into_error(client.id))?;
    let _lock = cache.lock(&metadata.etag, client.progress)?;
    let blob = cache.blob(&metadata.etag);
    // Another commit may have the same contents, or another process wrote them while this one
    // waited.
    if !blob.exists() {
        let partial = Partial::open(cache.partial(&metadata.etag), &metadata)?;
        Download { client, commit, name, partial }.run()?.keep_as(&blob)?;
    }
    cache.link(commit, name, &metadata.etag)
}

struct Download<'a> {
    client: &'a Client<'a>,
    commit: &'a str,
    name: &'a str,
    partial: Partial<'a>,
}

impl<'a> Download<'a> {
    /// Downloads the rest of the contents and checks them.
    fn run(mut self) -> Result<Partial<'a>> {
        // The part from an earlier run may be damaged, and so may one download. If a second
        // download fails, the hub is at fault.
        for is_last in [false, true] {
            if self.fill()? && self.partial.is_intact() {
                return Ok(self.partial);
            }
            self.partial.restart()?;
            if !is_last {
                self.client
                    .progress
                    .warn(&format!("{}: arrived damaged; downloading it anew", self.name));
            }
        }
        let Partial { path, metadata, .. } = self.partial;
        fs::remove_file(&path).map_err(|error| Error::io(&path, error))?;
        Err(self.client.id.error(format!(
            "{}: twice not the {} bytes with checksum {} that the hub announces; a proxy may be \
             altering it",
            self.name, metadata.size, metadata.etag
        )))
    }

    /// Appends until the contents are complete; false if the hub sends another length than
    /// announced.
    fn fill(&mut self) -> Result<bool> {
        let mut retries = self.client.retries();
        let mut farthest = self.partial.len;
        self.report();
        while self.partial.len < self.partial.metadata.size {
            match self.transfer() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(failure) => {
                    let gained = self.partial.len.saturating_sub(farthest);
                    if gained > 0 {
                        retries.reset();
                    }
                    farthest += gained;
                    retries.pause(failure).map_err(|failure| failure.into_error(self.client.id))?;
                }
            }
        }
        Ok(true)
    }

    /// Appends what one connection brings; false as for [`Self::fill`].
    fn transfer(&mut self) -> Result<bool, Failure> {
        let offset = self.partial.len;
        let response = self.client.open(self.commit, self.name, offset)?;
        let size = self.partial.metadata.size;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if content_range(&response) == Some((offset, size)) => {}
            StatusCode::OK if offset == 0 => {}
            // The hub ignores ranges and sends the whole file.
            StatusCode::OK => self.partial.restart()?,
            status => {
                self.partial.restart()?;
                let what = format!("{}: {status} does not go on from byte {offset}", self.name);
                return Err(Failure::Transient(what));
            }
        }
        if response
            .body()
            .content_length()
            .is_some_and(|left| left.saturating_add(self.partial.len) != size)
        {
            return Ok(false);
        }
        let mut body = response.into_body().into_reader();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = body
                .read(&mut chunk)
                .map_err(|error| Failure::Transient(format!("{}: {error}", self.name)))?;
            if read == 0 {
                break;
            }
            if self.partial.len + read as u64 > size {
                return Ok(false);
            }
            self.partial.append(&chunk[..read])?;
            self.report();
        }
        // Without a Content-Length a dropped connection looks like an end.
        if self.partial.len < size {
            return Err(Failure::Transient(format!("{}: ended early", self.name)));
        }
        Ok(true)
    }

    fn report(&self) {
        self.client.progress.advance(self.name, self.partial.len, self.partial.metadata.size);
    }
}

/// First byte and full length of `Content-Range: bytes 5-9/10`.
fn content_range<B>(response: &Response<B>) -> Option<(u64, u64)> {
    let range = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, size) = range.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
}

/// Incomplete contents: a file that only grows, with digests of its bytes.
struct Partial<'a> {
    path: PathBuf,
    metadata: &'a Metadata,
    file: File,
    digests: Vec<Digest>,
    /// Bytes in the file.
    len: u64,
}

impl<'a> Partial<'a> {
    /// Opens the file and keeps what an earlier run left in it.
    fn open(path: PathBuf, metadata: &'a Metadata) -> Result<Self> {
        let failed = |error| Error::io(&path, error);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(failed)?;
        let mut digests = digests(&metadata.etag, metadata.size);
        let mut left = file.metadata().map_err(failed)?.len();
        if left > metadata.size {
            file.set_len(0).map_err(failed)?;
            left = 0;
        }
        let len = left;
        let mut chunk = vec![0; CHUNK];
        while left > 0 {
            let want = left.min(CHUNK as u64) as usize;
            file.read_exact(&mut chunk[..want]).map_err(failed)?;
            digests.iter_mut().for_each(|digest| digest.update(&chunk[..want]));
            left -= want as u64;
        }
        Ok(Self { path, metadata, file, digests, len })
    }

    /// Drops the contents.
    fn restart(&mut self) -> Result<()> {
        self.digests = digests(&self.metadata.etag, self.metadata.size);
        self.len = 0;
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map(drop).map_err(|error| Error::io(&self.path, error))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Hub(format!(
                "{}: the disk is full after {} of {} bytes; free some space and run again to go on \
                 from there",
                self.path.display(),
                self.len,
                self.metadata.size
            )),
            _ => Error::io(&self.path, error),
        })?;
        self.digests.iter_mut().for_each(|digest| digest.update(bytes));
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn is_intact(&self) -> bool {
        let is_etag = |digest: &Digest| digest.hex() == self.metadata.etag;
        self.digests.is_empty() || self.digests.iter().any(is_etag)
    }

    /// Gives the finished file its final name.
    fn keep_as(self, blob: &Path) -> Result<()> {
        Ok(put_in_place(&self.file, &self.path, blob)?)
    }
}

/// Digests to compute for contents of `size` bytes: one of them must equal the hub's ETag. Empty
/// if the ETag is not a checksum.
fn digests(etag: &str, size: u64) -> Vec<Digest> {
    if is_hex(etag, 64) {
        return vec![Digest::sha256()]; // every large file
    }
    if is_hex(etag, 40) {
        // Other files have the SHA-1 of a git blob. Caching proxies replace it by the SHA-1 of the
        // bare contents.
        let mut blob = Digest::sha1();
        blob.update(format!("blob {size}\0").as_bytes());
        return vec![blob, Digest::sha1()];
    }
    Vec::new()
}
