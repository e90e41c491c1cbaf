//! A wheel on its way to the disk.

use super::client::{Client, Failure};
use super::index::Wheel;
use crate::gpu::Error;
use isentrope_files::{put_in_place, sha256_of_file};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use ureq::http::{StatusCode, header};

/// Bytes per read, and thereby per call of the progress.
const CHUNK: usize = 128 << 10;
/// Bytes of a wheel of which the index does not say how long it is, at most.
const LIMIT: u64 = 2 << 30;

/// Fetches a wheel into a directory and checks its hash; returns its file.
pub(super) fn fetch(
    client: &Client<'_>,
    wheel: &Wheel,
    directory: &Path,
) -> Result<PathBuf, Error> {
    let partial = directory.join(format!("{}.incomplete", wheel.file));
    let failed =
        |error: &dyn std::fmt::Display| Error::Install(format!("{}: {error}", partial.display()));
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&partial);
    let mut file = file.map_err(|error| failed(&error))?;
    // An earlier attempt's file may be damaged, and so may one download; the second failure is the
    // server's fault.
    for is_last in [false, true] {
        client.persist(|| {
            let result = transfer(client, wheel, &mut file);
            (length(&file), result)
        })?;
        if sha256_of_file(&partial).map_err(|error| failed(&error))? == wheel.sha256 {
            let complete = directory.join(&wheel.file);
            put_in_place(&file, &partial, &complete).map_err(|error| failed(&error))?;
            return Ok(complete);
        }
        file.set_len(0).map_err(|error| failed(&error))?;
        if !is_last {
            client.progress.warn(&format!("{}: arrived damaged; downloading it anew", wheel.file));
        }
    }
    fs::remove_file(&partial).map_err(|error| failed(&error))?;
    Err(Error::Install(format!(
        "{}: its SHA-256 is twice not {}, which the index announces; nothing was installed",
        wheel.file, wheel.sha256
    )))
}

fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

/// One connection's worth: appends to the file until the wheel ends.
fn transfer(client: &Client<'_>, wheel: &Wheel, file: &mut File) -> Result<(), Failure> {
    let stopped =
        |error: std::io::Error| Failure::Final(Error::Install(format!("{}: {error}", wheel.file)));
    let mut done = length(file);
    if wheel.size.is_some_and(|size| done > size) {
        file.set_len(0).map_err(stopped)?;
        done = 0;
    }
    if wheel.size == Some(done) {
        return Ok(());
    }
    let response = match client.get(&wheel.url, "*/*", done) {
        Err(failure) if done > 0 && wheel.size.is_none() => {
            // It may be complete; without its length only the beginning tells.
            file.set_len(0).map_err(stopped)?;
            return Err(failure);
        }
        response => response?,
    };
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let goes_on = response.status() == StatusCode::PARTIAL_CONTENT
        && range.is_some_and(|range| range.starts_with(&format!("bytes {done}-")));
    if !goes_on {
        file.set_len(0).map_err(stopped)?;
        done = 0;
        if response.status() == StatusCode::PARTIAL_CONTENT {
            return Err(Failure::passing(format_args!(
                "{}: the server sends another part than asked",
                wheel.file
            )));
        }
    }
    let expected = response.body().content_length().map(|left| done + left);
    let total = wheel.size.or(expected);
    let limit = total.unwrap_or(LIMIT).min(LIMIT);
    file.seek(SeekFrom::Start(done)).map_err(stopped)?;
    let mut body = response.into_body().into_reader();
    let mut chunk = vec![0; CHUNK];
    loop {
        client.progress.advance(&wheel.file, done, total.unwrap_or(done));
        let read = body
            .read(&mut chunk)
            .map_err(|error| Failure::passing(format_args!("{}: {error}", wheel.file)))?;
        if read == 0 {
            break;
        }
        done += read as u64;
        if done > limit {
            file.set_len(0).map_err(stopped)?;
            let what = format!("{}: longer than the {limit} bytes that it should have", wheel.file);
            return Err(Failure::Final(Error::Install(what)));
        }
        file.write_all(&chunk[..read]).map_err(stopped)?;
    }
    if total.is_some_and(|total| done < total) {
        return Err(Failure::passing(format_args!("{}: ended early", wheel.file)));
    }
    Ok(())
}
