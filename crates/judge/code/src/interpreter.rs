//! A session with Python in the sandbox: cells of code that share their names.
//!
//! Each cell runs in a fresh process, in which the earlier cells of its session have run again. So
//! nothing lives between two cells, and a session depends on its cells alone as far as they do:
//! random numbers and hashes are the same each time.

use serde_json::json;

use crate::pool::Pool;
use crate::settings::CodeSettings;
use crate::{End, JudgeError, Runner};

/// The program that runs cells.
const SESSION: &str = include_str!("../python/session.py");

/// Stands behind the output of a session whose interpreter has come to its end.
const MARK: char = '\x04';

/// Runs cells.
pub struct Interpreter {
    pool: Pool,
}

/// A cell that has run.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The text that it printed, the value of its last expression, and its traceback.
    pub output: String,
    /// Why its process ended before the cell did, as it follows "it"; the session goes on without
    /// the cell.
    pub aborted: Option<String>,
}

impl Interpreter {
    /// Finds the interpreter and the sandbox, and tries them.
    ///
    /// # Errors
    /// [`JudgeError`].
    pub fn start(settings: &CodeSettings) -> Result<Self, JudgeError> {
        Ok(Self { pool: Pool::start(settings)? })
    }

    /// Cells that run at the same time.
    pub fn workers(&self) -> usize {
        self.pool.settings.worker_count()
    }

    /// The interpreter and the sandbox, as a sentence without a full stop.
    pub fn describe(&self) -> String {
        self.pool.describe()
    }

    /// Runs the cell of a session behind its earlier cells, whose time counts.
    ///
    /// # Errors
    /// [`JudgeError`] when the sandbox fails.
    pub fn run(&self, earlier: &[String], cell: &str) -> Result<Cell, JudgeError> {
        let cells = json!([earlier, cell]).to_string();
        let limits = self.pool.settings.run_limits();
        let (mut output, end) =
            self.pool.with_worker(|worker| worker.script(SESSION, &cells, &limits))?;
        let CodeSettings { timeout_s, memory_mib, output_mib, .. } = self.pool.settings;
        let aborted = match end {
            End::Completed if output.ends_with(MARK) => {
                output.pop();
                None
            }
            End::Completed => Some("ended its process".to_owned()),
            End::RuntimeError(line) => Some(format!("ended its process: {line}")),
            End::TimeLimit => Some(format!("took longer than {timeout_s} s")),
            End::MemoryLimit => Some(format!("took more memory than {memory_mib} MiB")),
            End::OutputLimit => Some(format!("printed more than {output_mib} MiB")),
            End::Fault(what) => return Err(JudgeError(what)),
        };
        Ok(Cell { output, aborted })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Outputs of a session's cells, and how those that were aborted ended.
    fn session(cells: &[&str]) -> Vec<(String, Option<String>)> {
        let settings = CodeSettings {
            workers: Some(1),
            timeout_s: 2.0,
            memory_mib: 128,
            output_mib: 1,
            ..CodeSettings::default()
        };
        let interpreter = Interpreter::start(&settings).unwrap();
        let mut earlier = Vec::new();
        let run = |cell: &&str| {
            let Cell { output, aborted } = interpreter.run(&earlier, cell).unwrap();
            if aborted.is_none() {
                earlier.push((*cell).to_owned());
            }
            (output, aborted)
        };
        cells.iter().map(run).collect()
    }

    #[test]
    fn cells_share_their_names_and_show_their_own_output() {
        let cells = [
            "import os\nx = 3\nprint('once', flush=True)\nos.write(2, b'err\\n');\nr = id",
            "x + 4",
            "x = 5; 1 / 0",
            "print(x, r is id)\nlen('é')",
            "def f(:",
            "raise SystemExit(3)",
            "input()",
            "'é\\ud800'",
            "import atexit; atexit.register(print, 'late')",
        ];
        let outputs: Vec<String> = session(&cells)
            .into_iter()
            .map(|(output, aborted)| {
                assert_eq!(aborted, None);
                output
            })
            .collect();
        assert_eq!(outputs[0], "once\nerr\n");
        assert_eq!(outputs[1], "7\n");
        assert!(outputs[2].contains("cell 3\", line 1") && outputs[2].contains("x = 5; 1 / 0"));
        assert!(outputs[2].ends_with("ZeroDivisionError: division by zero\n"), "{outputs:?}");
        assert_eq!(outputs[3], "5 True\n1\n", "what ran before the error stays");
        assert!(outputs[4].contains("SyntaxError: "), "{outputs:?}");
        assert!(outputs[5].ends_with("SystemExit: 3\n"), "{outputs:?}");
        assert!(outputs[6].contains("EOFError"), "{outputs:?}");
        assert_eq!(outputs[7], "'é\\ud800'\n");
        assert!(outputs[8].ends_with("late\n"), "{outputs:?}");
    }

    #[test]
    fn cells_have_limits_and_one_that_exceeds_them_is_not_of_the_session() {
        let cells = [
            "x = 1",
            "x = 2\nwhile True: pass",
            "y = bytearray(1 << 30)",
            "print('a' * (4 << 20))",
            "import os; os._exit(3)",
            "print(7, flush=True); import os; os._exit(0)",
            "open('/tmp/a', 'w').write('b'); open('/etc/passwd').read()[:4]",
            "print(x, os.path.exists('/tmp/a'))",
        ];
        let found = session(&cells);
        assert_eq!(found[1].1.as_deref(), Some("took longer than 2 s"));
        assert!(found[2].0.contains("MemoryError"), "{:?}", found[2]);
        assert_eq!(found[3].1.as_deref(), Some("printed more than 1 MiB"));
        assert_eq!(found[3].0.len(), 1 << 20);
        assert_eq!(found[4].1.as_deref(), Some("ended its process: it ended with exit status 3"));
        assert_eq!(found[5], ("7\n".into(), Some("ended its process".into())));
        assert!(found[6].0.contains("Error: "), "the sandbox has no such file: {:?}", found[6]);
        assert!(found[7].0.contains("NameError"), "{:?}", found[7]);
    }
}
