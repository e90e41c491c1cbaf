//! Downloads a wheel to the disk.

use super::client::{Client, RequestError};
use super::index::Wheel;
use crate::gpu::Error;
use isentrope_files::{put_in_place, sha256_of_file};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of a read. Progress is reported after each.
const CHUNK: usize = 128 << 10;
/// Most bytes of a wheel if the index does not give its length.
const LIMIT: u64 = 2 << 30;

/// Fetches a wheel into a directory and checks its hash; returns its file. Every attempt begins
/// anew.
pub(super) fn fetch(
    client: &Client<'_>,
    wheel: &Wheel,
    directory: &Path,
) -> Result<PathBuf, Error> {
    client.persist(client.retries, || {
        let partial = directory.join(format!("{}.incomplete", wheel.file));
        let failed = |error: &dyn std::fmt::Display| {
            RequestError::Permanent(Error::Install(format!("{}: {error}", partial.display())))
        };
        let mut file = File::create(&partial).map_err(|error| failed(&error))?;
        transfer(client, wheel, &mut file)?;
        if sha256_of_file(&partial).map_err(|error| failed(&error))? != wheel.sha256 {
            let (name, sha256) = (&wheel.file, &wheel.sha256);
            return Err(RequestError::transient(format_args!(
                "{name}: its SHA-256 is not {sha256}, which the index announces"
            )));
        }
        let complete = directory.join(&wheel.file);
        put_in_place(&file, &partial, &complete).map_err(|error| failed(&error))?;
        Ok(complete)
    })
}

fn transfer(client: &Client<'_>, wheel: &Wheel, file: &mut File) -> Result<(), RequestError> {
    let name = &wheel.file;
    let response = client.get(&wheel.url, "*/*")?;
    let total = wheel.size.or(response.body().content_length());
    let limit = total.unwrap_or(LIMIT).min(LIMIT);
    let mut body = response.into_body().into_reader();
    let (mut chunk, mut done) = (vec![0; CHUNK], 0);
    loop {
        client.progress.advance(name, done, total.unwrap_or(done));
        let read = body
            .read(&mut chunk)
            .map_err(|error| RequestError::transient(format_args!("{name}: {error}")))?;
        if read == 0 {
            break;
        }
        done += read as u64;
        if done > limit {
            let what = format!("{name}: longer than the {limit} bytes that it should have");
            return Err(RequestError::Permanent(Error::Install(what)));
        }
        file.write_all(&chunk[..read])
            .map_err(|error| RequestError::Permanent(Error::Install(format!("{name}: {error}"))))?;
    }
    if total.is_some_and(|total| done < total) {
        return Err(RequestError::transient(format_args!("{name}: ended early")));
    }
    Ok(())
}
