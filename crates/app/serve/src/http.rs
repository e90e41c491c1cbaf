//! HTTP: connections, routes and bodies. All of it runs on one thread; texts become tokens on a few
//! others.

use crate::Settings;
use crate::answer::Answer;
use crate::api_error::{ApiError, RETRY_AFTER, ending, time_over};
use crate::job::{Job, Message, Update, Waiting};
use crate::metrics::Metrics;
use crate::reading::{Form, Front, Understood};
use crate::stream::{EventStream, Reply};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, RETRY_AFTER as RETRY,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout, timeout_at};

/// Longest body of a request, in bytes.
const LONGEST_BODY: usize = 4 << 20;
/// Most bytes of a longer body that are read and forgotten, because a client reads the refusal only
/// once it has sent its body.
const MOST_FORGOTTEN: usize = 64 << 20;
/// Most connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 512;
/// Time for a client to send a request's head, and for its body.
const TO_SEND: Duration = Duration::from_secs(30);
/// Time for a client to take what has been sent to it.
const TO_TAKE: Duration = Duration::from_secs(30);
/// Threads on which texts become tokens, and whole answers texts.
const READERS: usize = 4;
/// Time between two looks at whether the server is to end.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for clients to get the errors of requests that the server's end has cut off.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Time for readers of long texts to end, when the server does.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// The owner of a server's paths: it answers the requests of all connections.
pub trait Site: Send + Sync + 'static {
    /// Answers a request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Reply>> + Send;

    /// Time for running requests when the server is to end.
    fn grace(&self) -> Duration;

    /// Ends the work on requests whose time is over.
    fn end(&self);
}

/// A server's shared state.
pub(crate) struct Server {
    pub front: Arc<Front>,
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
    pub messages: Sender<Message>,
    pub answers: AtomicU64,
}

/// Serves until `stop` says true and the running requests have ended, or have had their time.
pub fn run<S: Site>(
    server: Arc<S>,
    listener: std::net::TcpListener,
    stop: fn() -> bool,
) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(READERS)
        .build()?;
    listener.set_nonblocking(true)?;
    let served = runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        let (stopping, stopped) = watch::channel(());
        let accepting = accept(&server, listener, &free, &stopped);
        until(accepting, async {
            while !stop() {
                sleep(STOP_POLL_INTERVAL).await;
            }
        })
        .await;
        let _ = stopping.send(()); // nobody hears it if there is no connection
        let all = || free.acquire_many(CONNECTIONS as u32);
        if timeout(server.grace(), all()).await.is_err() {
            server.end();
            // The runtime drops the connections that are left then.
            let _ = timeout(LAST_ANSWERS, all()).await;
        }
        io::Result::Ok(())
    });
    runtime.shutdown_timeout(LAST_WAIT);
    served
}

/// Runs `work` until `end`. None if it is not done by then.
async fn until<T>(work: impl Future<Output = T>, end: impl Future<Output = ()>) -> Option<T> {
    let (mut work, mut end) = (pin!(work), pin!(end));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Accepts connections for ever.
async fn accept<S: Site>(
    server: &Arc<S>,
    listener: TcpListener,
    free: &Arc<Semaphore>,
    stopped: &watch::Receiver<()>,
) {
    while let Ok(place) = Arc::clone(free).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(STOP_POLL_INTERVAL).await; // as when there are too many open files
            continue;
        };
        let (server, stopped) = (Arc::clone(server), stopped.clone());
        tokio::spawn(async move {
            connection(server, stream, stopped).await;
            drop(place);
        });
    }
}

/// Hears of the server's end. Each request has it among its extensions.
#[derive(Clone)]
struct Stopped(watch::Receiver<()>);

/// Serves a connection to its end.
async fn connection<S: Site>(server: Arc<S>, stream: TcpStream, stopped: watch::Receiver<()>) {
    let _ = stream.set_nodelay(true); // it is only faster with it
    // The system breaks off a connection whose client takes nothing, which frees its place.
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, TO_TAKE.as_millis() as u32);
    let is_asked = AtomicBool::new(false);
    let service = service_fn(|mut request: Request<Incoming>| {
        is_asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Stopped(stopped.clone()));
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(TO_SEND)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut stop = stopped.clone();
    let mut stopping = pin!(stop.changed());
    let mut is_stopping = false;
    poll_fn(|context| {
        if !is_stopping && stopping.as_mut().poll(context).is_ready() {
            is_stopping = true;
            connection.as_mut().graceful_shutdown();
        }
        // A client that closes its side has left: its connection ends, and its request is dropped.
        // A client that breaks off, or sends what is not HTTP, ends its own connection alone.
        let ended = connection.as_mut().poll(context).map(|_| ());
        // The rest of a first request's head may never come.
        if is_stopping && !is_asked.load(Ordering::Relaxed) { Poll::Ready(()) } else { ended }
    })
    .await;
}

impl Site for Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Reply> {
        let metrics = Arc::clone(&self.metrics);
        let target = Target::of(request.uri().path());
        let allowed = target.as_ref().map_or("", Target::methods);
        let answer = match self.route(target, request).await {
            Ok(answer) => answer,
            Err(error) => {
                let mut answer = json_reply(&error.body());
                *answer.status_mut() = error.status;
                let header = match error.status {
                    StatusCode::SERVICE_UNAVAILABLE => Some((RETRY, RETRY_AFTER)),
                    StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, allowed)),
                    _ => None,
                };
                if let Some((name, value)) = header {
                    answer.headers_mut().insert(name, value.parse().expect("a plain text"));
                }
                answer
            }
        };
        metrics.count_answer(answer.status().as_u16());
        answer
    }

    fn grace(&self) -> Duration {
        self.settings.grace
    }

    fn end(&self) {
        let _ = self.messages.send(Message::End); // the engine may be gone
    }
}

/// The resource that a path names.
enum Target {
    Health,
    Metrics,
    Models,
    Model(String),
    Completions(Form),
}

impl Target {
    /// None if there is no such path.
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/health" => Self::Health,
            "/metrics" => Self::Metrics,
            "/v1/models" => Self::Models,
            "/v1/completions" => Self::Completions(Form::Completion),
            "/v1/chat/completions" => Self::Completions(Form::Chat),
            _ => {
                let name = percent_decode_str(path.strip_prefix("/v1/models/")?);
                Self::Model(name.decode_utf8_lossy().into_owned())
            }
        })
    }

    /// The methods that it takes. hyper leaves out the body of an answer to HEAD.
    fn methods(&self) -> &'static str {
        match self {
            Self::Completions(_) => "POST",
            _ => "GET, HEAD",
        }
    }
}

impl Server {
    async fn route(
        self: Arc<Self>,
        target: Option<Target>,
        request: Request<Incoming>,
    ) -> Result<Response<Reply>, ApiError> {
        if request.uri().path().starts_with("/v1/") {
            self.check_key(&request)?;
        }
        let Some(target) = target else {
            let message = "there is no such path: /v1/completions, /v1/chat/completions, \
                           /v1/models, /health and /metrics are there";
            return Err(ApiError::new(StatusCode::NOT_FOUND, message));
        };
        if !target.methods().split(", ").any(|method| method == request.method()) {
            let message = format!("{} does not take {}", request.uri().path(), request.method());
            return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        let form = match target {
            Target::Health => return Ok(reply("text/plain", String::new())),
            Target::Metrics => {
                return Ok(reply("text/plain; version=0.0.4", self.metrics.text()));
            }
            Target::Models => {
                let all = json!({"object": "list", "data": [self.model()]});
                return Ok(json_reply(&all));
            }
            Target::Model(name) => {
                self.front.check_name(&name)?;
                return Ok(json_reply(&self.model()));
            }
            Target::Completions(form) => form,
        };
        if !is_body_of(request.headers(), &["application/json"]) {
            let message = "the header \"Content-Type: application/json\" is missing";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let deadline = Instant::now() + self.settings.timeout;
        let body = read(request, LONGEST_BODY).await?;
        let front = Arc::clone(&self.front);
        let understood = tokio::task::spawn_blocking(move || front.understand(form, &body)).await;
        let request =
            understood.map_err(|_| ApiError::internal("the request could not be read"))??;
        self.run(request, deadline).await
    }

    /// Gives a request to the engine, and answers it.
    async fn run(
        &self,
        request: Understood,
        deadline: Instant,
    ) -> Result<Response<Reply>, ApiError> {
        let (sender, mut updates) = unbounded_channel();
        let sequences = request.prompts.len() * request.samples;
        let most = self.settings.max_waiting;
        if sequences > most {
            return Err(ApiError::request(format!(
                "the request has {sequences} sequences, and this server's --max-waiting is {most}"
            )));
        }
        let waiting = Waiting::enter(&self.metrics, sequences, most).ok_or_else(|| {
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{most} sequences wait already, this server's --max-waiting: try later"),
            )
        })?;
        let job = Job {
            prompts: request.prompts.clone(),
            samples: request.samples,
            sampling: request.sampling.clone(),
            seed: request.seed,
            scoring: request.scoring,
            deadline,
            updates: sender,
            waiting,
        };
        self.messages.send(Message::Job(Box::new(job))).map_err(|_| ending())?;
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let streams = request.stream;
        let mut answer = Answer::new(Arc::clone(&self.front), request, number);
        loop {
            let update = next(&mut updates, deadline).await?;
            // The status of a stream is sent once the engine has the job.
            let is_accepted = matches!(update, Update::Accepted);
            answer.take(update)?;
            if streams && is_accepted {
                let stream = EventStream { answer, updates, ended: false };
                let mut reply = Response::new(Reply::Stream(Box::new(stream)));
                let headers = reply.headers_mut();
                headers.insert(CONTENT_TYPE, "text/event-stream".parse().expect("a plain text"));
                headers.insert(CACHE_CONTROL, "no-cache".parse().expect("a plain text"));
                return Ok(reply);
            }
            if answer.is_complete() {
                // A large answer takes a while to write, in which others are to be heard.
                let written = tokio::task::spawn_blocking(move || answer.whole().to_string()).await;
                let body = written.map_err(|_| ApiError::internal("the answer is lost"))?;
                return Ok(reply("application/json", body));
            }
        }
    }

    fn check_key(&self, request: &Request<Incoming>) -> Result<(), ApiError> {
        let Some(key) = &self.settings.api_key else { return Ok(()) };
        let given = request.headers().get(AUTHORIZATION).map(hyper::header::HeaderValue::as_bytes);
        let given = given.and_then(|value| value.split_at_checked(b"Bearer ".len()));
        if given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && are_equal(given, key.as_bytes())
        }) {
            return Ok(());
        }
        let message = "the API key is missing or wrong: send it as \"Authorization: Bearer KEY\"";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }

    fn model(&self) -> Value {
        let Front { name, started, context, .. } = &*self.front;
        json!({
            "id": name, "object": "model", "created": started, "owned_by": "isentrope",
            "max_model_len": context,
        })
    }
}

/// The next event of a job.
async fn next(
    updates: &mut UnboundedReceiver<Update>,
    deadline: Instant,
) -> Result<Update, ApiError> {
    let update = timeout_at(deadline.into(), updates.recv()).await.map_err(|_| time_over())?;
    update.ok_or_else(ending)
}

/// Whether a body says that it is of one of these types. What does not is to be refused: a browser
/// lets any page send a body of another type to a server on its user's machine.
pub fn is_body_of(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// Compares keys in a time that depends on their lengths alone.
pub fn are_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Reads a request's body of at most `longest` bytes. It has 30 s to arrive, and no time once the
/// server is to end.
///
/// # Errors
/// A sentence on a body that is too long or slow, or breaks off; that the server is ending.
pub async fn read(mut request: Request<Incoming>, longest: usize) -> Result<Vec<u8>, ApiError> {
    let stopped = request.extensions_mut().remove::<Stopped>();
    let Stopped(mut stopped) = stopped.expect("a connection gives it to each request");
    let reading = until(read_all(request.into_body(), longest), async {
        let _ = stopped.changed().await;
    });
    match timeout(TO_SEND, reading).await {
        Ok(body) => body.unwrap_or_else(|| Err(ending())),
        Err(_) => {
            let message = format!("the body took longer than {} s", TO_SEND.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

async fn read_all(mut body: Incoming, longest: usize) -> Result<Vec<u8>, ApiError> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| ApiError::request("the body broke off"))?;
        let Some(data) = frame.data_ref() else { continue };
        length += data.len();
        if length > longest {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(data);
        }
        if length > longest.max(MOST_FORGOTTEN) {
            break;
        }
    }
    if length > longest {
        let message = format!("the body has more than {} MiB", longest >> 20);
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(bytes)
}

/// An answer with a whole body of a content type.
pub fn reply(kind: &'static str, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Some(body.into())));
    response.headers_mut().insert(CONTENT_TYPE, kind.parse().expect("a plain text"));
    response
}

fn json_reply(body: &Value) -> Response<Reply> {
    reply("application/json", body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net;
    use std::thread;

    /// Answers each request with its body.
    struct Echo;

    impl Site for Echo {
        async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Reply> {
            match read(request, 100).await {
                Ok(body) => reply("text/plain", body),
                Err(error) => json_reply(&error.body()),
            }
        }

        fn grace(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn end(&self) {}
    }

    #[test]
    fn half_sent_requests_do_not_hold_up_the_end() {
        static STOPS: AtomicBool = AtomicBool::new(false);
        let listener = net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stops = || STOPS.load(Ordering::Relaxed);
        let server = thread::spawn(move || run(Arc::new(Echo), listener, stops));
        let send = |text: &str| {
            let mut stream = net::TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            stream
        };
        let _half_head = send("POST / HT");
        let mut half_body = send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nha");
        let mut whole = send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        // Once the last one is answered, all have been read.
        whole.read_exact(&mut [0; 15]).unwrap();
        let begun = Instant::now();
        STOPS.store(true, Ordering::Relaxed);
        let mut answer = String::new();
        half_body.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("the server is ending"), "{answer}");
        server.join().unwrap().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
