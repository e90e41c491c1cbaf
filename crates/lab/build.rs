//! Puts plotly.js into the program compressed, as pages carry it. The crate `plotly` has the library's source; its own code,
//! and the formula renderer beside it, stay out of the program.
#![allow(clippy::print_stdout, reason = "cargo listens there")]

use flate2::{Compression, GzBuilder};
use plotly::Plot;
use std::env;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let sources = Plot::offline_js_sources();
    let (_, first) = sources.split_once('>').ok_or("no element")?;
    let (plotly_js, _) = first.split_once("</script>").ok_or("no end of the element")?;
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(plotly_js.as_bytes())?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("plotly.min.js.gz"), gzip.finish()?)?;
    Ok(())
}
