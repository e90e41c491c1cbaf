//! A real browser that looks at a page: Chromium without a window, over the DevTools protocol.
//!
//! `ISENTROPE_TEST_BROWSER` names it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a page may take until what is waited for is so.
const PATIENCE: Duration = Duration::from_secs(60);

/// The window and the colours that a page is looked at with.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width of the window, in CSS pixels.
    pub width: u32,
    /// Whether the reader's system is dark.
    pub dark: bool,
}

/// A browser with one page.
pub struct Browser {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last: u64,
    session: String,
    /// The page's log, and errors that it did not catch.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Opens a file, and waits until `ready`, an expression in JavaScript, is true.
    pub fn open(file: &Path, look: Look, ready: &str) -> Self {
        let program =
            env::var("ISENTROPE_TEST_BROWSER").expect("ISENTROPE_TEST_BROWSER names a browser");
        let profile = tempfile::tempdir().unwrap();
        // The browser speaks over descriptors 3 and 4, which the shell makes of its own input and
        // output.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", &program])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (complaints, session) = (Vec::new(), String::new());
        let output = BufReader::new(output);
        let mut browser =
            Self { process, input, output, last: 0, session, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.look(look);
        browser.call(
            "Page.navigate",
            json!({"url": format!("file://{}", file.canonicalize().unwrap().display())}),
        );
        browser.wait("location.protocol === 'file:' && document.readyState === 'complete'");
        browser.wait(ready);
        browser
    }

    /// Changes the window and the system's colours, as of a reader who turns the phone or the
    /// lights.
    pub fn look(&mut self, Look { width, dark }: Look) {
        let scale = if width < 600 { 2 } else { 1 };
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 900, "deviceScaleFactor": scale,
                "mobile": width < 600}),
        );
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// The value of an expression, which may be a promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let reply = self.call("Runtime.evaluate", parameters);
        assert!(reply.get("exceptionDetails").is_none(), "{expression}: {reply}");
        reply["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(
                begun.elapsed() < PATIENCE,
                "not in {PATIENCE:?}: {expression}; {:?}",
                self.complaints
            );
            sleep(Duration::from_millis(50));
        }
    }

    /// The page on paper, as the bytes of a PDF file.
    pub fn print(&mut self) -> Vec<u8> {
        let reply = self.call("Page.printToPDF", json!({"printBackground": true}));
        BASE64_STANDARD.decode(reply["data"].as_str().unwrap()).unwrap()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        self.input.flush().unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(
                bytes.pop(),
                Some(0),
                "the browser has gone; does it run as {method} was asked?"
            );
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            if message["id"] == json!(self.last) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.heed(&message);
        }
    }

    /// Collects logs, errors and requests to the network.
    fn heed(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" => {
                self.complaints.push(format!("console: {}", parameters["args"]));
            }
            "Runtime.exceptionThrown" => {
                self.complaints.push(format!("exception: {}", parameters["exceptionDetails"]));
            }
            "Log.entryAdded" => self.complaints.push(format!("log: {}", parameters["entry"])),
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                if !["file://", "about:", "data:", "blob:"].iter().any(|own| url.starts_with(own)) {
                    self.complaints.push(format!("request: {url}"));
                }
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
