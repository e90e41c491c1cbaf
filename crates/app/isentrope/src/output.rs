//! Writes results, JSON lines and whole texts. A file appears under its name only when it is
//! complete.

use crate::interrupt::{self, Interrupted};
use crate::standard_output::{failed, print};
use anyhow::{Context, Result, bail};
use isentrope_files::{AtomicFile, parent};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The destination of lines.
pub enum Output {
    /// Standard output, line by line.
    Stdout,
    /// A device or a pipe, which a file must not replace.
    Device { path: PathBuf, writer: BufWriter<File> },
    /// A file that is renamed into place at the end.
    File { path: PathBuf, file: AtomicFile },
}

impl Output {
    /// Opens a file, or standard output for `-` or without a path. This happens before the work
    /// starts, so that an unwritable directory is an error at once.
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Self::Stdout);
        };
        if path.as_os_str().is_empty() {
            bail!("--out: the name is empty; name a file, or - for standard output");
        }
        if path.is_dir() {
            bail!("{}: is a directory; name a file", path.display());
        }
        isentrope_files::refuse_dangling(path)?;
        // A link stays a link: its target is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.exists() && !path.is_file() {
            let device = File::options().write(true).open(&path);
            let writer = BufWriter::new(device.with_context(|| path.display().to_string())?);
            return Ok(Self::Device { path, writer });
        }
        let file = AtomicFile::create(&path).map_err(io::Error::from).with_context(|| {
            format!(
                "{}: its directory is {}, and one cannot write there; --out names another file",
                path.display(),
                parent(&path).display()
            )
        })?;
        interrupt::clean_up(file.temporary());
        // A private file stays private, from the first byte on.
        if let Ok(older) = fs::metadata(&path) {
            let kept = fs::set_permissions(file.temporary(), older.permissions());
            kept.with_context(|| {
                format!("{}: the new file cannot have its permissions", path.display())
            })?;
        }
        Ok(Self::File { path, file })
    }

    /// Writes one line.
    pub fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(value)?;
        text.push('\n');
        self.text(&text)
    }

    /// Writes text unchanged.
    pub fn text(&mut self, text: &str) -> Result<()> {
        match self {
            Self::Stdout => print(text)?,
            Self::Device { path, writer } => {
                writer.write_all(text.as_bytes()).map_err(|e| failed(path.display(), e))?;
            }
            Self::File { file, .. } => file.write(text.as_bytes())?,
        }
        Ok(())
    }

    /// Puts the complete file in its place.
    pub fn finish(self) -> Result<()> {
        self.keep_as(Path::to_owned).map(drop)
    }

    /// Keeps the partial file beside the place of the complete one, and returns the interrupted
    /// command's error, which names it. `what` names the content, such as "the lines so far".
    pub fn interrupted(self, what: &str) -> Result<anyhow::Error> {
        let partial = self.keep_as(|path| {
            let mut name = path.as_os_str().to_owned();
            name.push(".partial");
            name.into()
        })?;
        let kept = match partial {
            Some(path) => format!("{what} are in {}", path.display()),
            None => format!("{what} have been printed"),
        };
        Ok(Interrupted { kept }.into())
    }

    fn keep_as(self, name: impl FnOnce(&Path) -> PathBuf) -> Result<Option<PathBuf>> {
        match self {
            Self::Stdout => Ok(None),
            Self::Device { path, mut writer } => {
                writer.flush().map_err(|e| failed(path.display(), e))?;
                Ok(None)
            }
            Self::File { path, file } => {
                let path = name(&path);
                file.commit_as(&path)?;
                Ok(Some(path))
            }
        }
    }
}
