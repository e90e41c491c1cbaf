//! One table and one JSON file.

use serde_json::{Value, json};
use std::path::Path;

/// Measurements and verdicts.
#[derive(Default)]
pub struct Report {
    device: String,
    /// Bytes a second of a copy, read and written; what memory-bound kernels are held against.
    pub bandwidth: Option<f64>,
    /// Operations a second of the fastest product: what the others are held against.
    pub peak: Option<f64>,
    lines: Vec<Line>,
}

struct Line {
    part: &'static str,
    what: String,
    seconds: Option<f64>,
    bytes: f64,
    flop: f64,
    verdict: Option<Result<String, String>>,
}

/// What an operation must do at least.
#[derive(Clone, Copy, Default)]
pub struct Work {
    /// Bytes read and written.
    pub bytes: f64,
    /// Additions and multiplications.
    pub flop: f64,
}

impl Report {
    /// What is measured.
    pub fn name(&mut self, device: &str) {
        device.clone_into(&mut self.device);
    }

    /// Adds how long something took.
    pub fn time(&mut self, part: &'static str, what: &str, seconds: f64, work: Work) {
        let Work { bytes, flop } = work;
        self.lines.push(Line { part, what: what.into(), seconds: Some(seconds), bytes, flop, verdict: None });
    }

    /// Adds whether something is right, with what there is to say of it.
    pub fn verdict(&mut self, part: &'static str, what: &str, verdict: Result<String, String>) {
        let verdict = Some(verdict);
        self.lines.push(Line { part, what: what.into(), seconds: None, bytes: 0.0, flop: 0.0, verdict });
    }

    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.lines.iter().all(|line| !matches!(line.verdict, Some(Err(_))))
    }

    /// Writes `gpu.md` and `gpu.json`.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("gpu.md"), self.table() + "\n")?;
        std::fs::write(directory.join("gpu.json"), format!("{:#}\n", self.json()))
    }

    /// The least time in which memory and tensor core could do the work, as they were measured.
    fn bound(&self, line: &Line) -> Option<f64> {
        if line.bytes == 0.0 && line.flop == 0.0 {
            return None;
        }
        let by_memory = line.bytes / self.bandwidth?;
        Some(self.peak.map_or(by_memory, |peak| by_memory.max(line.flop / peak)))
    }

    /// All of it as Markdown.
    pub fn table(&self) -> String {
        let mut rows = vec![
            format!("{}\n", self.device),
            "| part | what | time, us | GB/s | TFLOP/s | of the bound | |".into(),
            "| --- | --- | ---: | ---: | ---: | ---: | --- |".into(),
        ];
        for line in &self.lines {
            let number = |number: Option<f64>, digits| {
                number.map(|number| format!("{number:.digits$}")).unwrap_or_default()
            };
            let per_second =
                |amount: f64, unit: f64| line.seconds.filter(|_| amount > 0.0).map(|s| amount / s / unit);
            let share = line
                .seconds
                .and_then(|seconds| Some(format!("{:.0} %", 100.0 * self.bound(line)? / seconds)));
            let verdict = match &line.verdict {
                None => String::new(),
                Some(Ok(said)) => format!("right: {said}"),
                Some(Err(said)) => format!("wrong: {said}"),
            };
            rows.push(format!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                line.part,
                line.what,
                number(line.seconds.map(|seconds| seconds * 1e6), 1),
                number(per_second(line.bytes, 1e9), 0),
                number(per_second(line.flop, 1e12), 1),
                share.unwrap_or_default(),
                verdict.replace('|', "/").replace('\n', " ")
            ));
        }
        rows.join("\n")
    }

    fn json(&self) -> Value {
        let line = |line: &Line| {
            let verdict = line.verdict.as_ref();
            json!({
                "part": line.part, "what": line.what, "seconds": line.seconds, "bytes": line.bytes, "flop": line.flop,
                "bound_seconds": line.seconds.and(self.bound(line)),
                "right": verdict.map(Result::is_ok),
                "said": verdict.map(|verdict| verdict.as_ref().unwrap_or_else(|said| said)),
            })
        };
        json!({
            "device": self.device, "bandwidth_bytes_per_s": self.bandwidth, "peak_flop_per_s": self.peak,
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
        })
    }
}
