//! A hub on a local port, with faults to order.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
}

/// An answer to send.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Close the connection after this many bytes of the body.
    pub cut: Option<usize>,
    /// Keep silent for this long at the cut.
    pub stall: Duration,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), cut: None, stall: Duration::ZERO }
    }

    pub fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.into(), value.to_string()));
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// The body, or the part of it that the request's Range asks for.
    pub fn ranged(request: &Received, body: &[u8]) -> Self {
        let Some(range) = request.headers.get("range") else { return Self::status(200).body(body) };
        let start: usize =
            range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap();
        if start >= body.len() {
            return Self::status(416).header("Content-Range", format!("bytes */{}", body.len()));
        }
        let range = format!("bytes {start}-{}/{}", body.len() - 1, body.len());
        Self::status(206).header("Content-Range", range).body(&body[start..])
    }
}

type Handler = Box<dyn Fn(&Received) -> Reply + Send + Sync>;

/// A server that lives as long as the test process and logs what it is asked.
pub struct Server {
    pub url: String,
    log: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Serves `handler`; requests are numbered by their place in the log.
    pub fn start(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(Box::new(handler));
        let seen = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                thread::spawn(move || answer(&stream.unwrap(), &handler, &seen));
            }
        });
        Self { url, log }
    }

    /// Everything asked so far.
    pub fn requests(&self) -> Vec<Received> {
        self.log.lock().unwrap().clone()
    }

    /// The requests with this method whose path ends with `end`.
    pub fn matching(&self, method: &str, end: &str) -> Vec<Received> {
        self.requests()
            .into_iter()
            .filter(|r| r.method == method && r.path.ends_with(end))
            .collect()
    }
}

fn answer(stream: &TcpStream, handler: &Handler, log: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut parts = line.split(' ');
    let (method, path) = (parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let request = Received { method, path, headers };
    log.lock().unwrap().push(request.clone());
    let reply = handler(&request);
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name == "Content-Length") {
        head += &format!("Content-Length: {}\r\n", reply.body.len());
    }
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = stream;
    // The client may hang up whenever it likes.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    if request.method != "HEAD" {
        let end = reply.cut.unwrap_or(reply.body.len());
        let _ = stream.write_all(&reply.body[..end]);
        if end < reply.body.len() {
            thread::sleep(reply.stall);
        }
    }
}
