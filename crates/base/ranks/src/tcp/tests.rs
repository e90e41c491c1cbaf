use super::*;
use crate::engine::{Move, PendingMoves};
use crate::line::Line;
use crate::piece::Piece;
use crate::pulse::{Message, Watch};
use crate::world::World;
use crate::{HostFloats, Slices};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn settings() -> (Settings, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let settings = Settings {
        threads: 1,
        program: "a test".into(),
        watch: Watch { silent: Some(Duration::from_secs(20)), period: Duration::from_millis(50) },
        tell: Arc::new(move |message: Message<'_>| {
            heard.lock().unwrap().push(message.text().to_owned());
        }),
    };
    (settings, said)
}

/// Rank 0's socket, and how ranks come to it.
fn meeting(size: usize) -> (TcpListener, impl Fn(usize) -> Meeting) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let meeting = move |rank| Meeting {
        launcher: "a test",
        rank,
        size,
        host: "127.0.0.1".into(),
        port,
        key: "key".into(),
        listener: None,
        children: Children::default(),
    };
    (listener, meeting)
}

/// The result of each rank, which is a thread here.
fn on_ranks<T: Send>(
    size: usize,
    act: impl Fn(Box<dyn Engine>) -> T + Sync,
    disturb: impl FnOnce(u16),
) -> Vec<T> {
    let (listener, meeting) = meeting(size);
    let first = Meeting { listener: Some(listener), ..meeting(0) };
    disturb(first.port);
    thread::scope(|scope| {
        let ranks = std::iter::once(first).chain((1..size).map(meeting));
        let ranks: Vec<_> = ranks
            .map(|meeting| scope.spawn(|| act(begin(meeting, &settings().0).unwrap().0)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn ended(engine: &mut dyn Engine, ticket: crate::engine::Ticket) -> Vec<Piece> {
    loop {
        if let Some(pieces) = engine.poll(ticket).unwrap() {
            return pieces;
        }
        thread::yield_now();
    }
}

fn pattern(from: usize, to: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + from * 31 + to) as u8 ^ (i >> 9) as u8).collect()
}

/// Far more bytes than sockets hold, both ways between all pairs at once, with all-gathers and
/// broadcasts in between that some ranks await later than others.
#[test]
fn moves_of_all_kinds_pass_each_other() {
    const BYTES: usize = 9 << 20;
    on_ranks(
        3,
        |mut engine| {
            let (rank, size) = (engine.rank(), engine.size());
            let mut moves = Vec::new();
            for other in (0..size).filter(|other| *other != rank) {
                let piece = Piece::unsealed(pattern(rank, other, BYTES + 3));
                moves.push(Move::Send { to: other, piece, bytes: BYTES });
            }
            let sent = engine.start(moves).unwrap();
            // A rank that is late: what comes waits for it, and notes do not.
            thread::sleep(Duration::from_millis(30 * rank as u64));
            if rank > 0 {
                engine.post(0, &[rank as u8; 128]).unwrap();
            } else {
                let mut notes = Vec::new();
                while notes.len() < size - 1 {
                    notes.extend(engine.notes().unwrap());
                }
                notes.sort();
                assert_eq!(notes, [(1, [1; 128]), (2, [2; 128])]);
            }
            let receive = |from| Move::Receive { from, piece: Piece::zeros(BYTES), bytes: BYTES };
            let others = (0..size).filter(|other| *other != rank);
            let received = engine.start(others.clone().map(receive).collect()).unwrap();
            let lengths = vec![5, 0, 70_000];
            let all = Piece::zeros(70_005);
            let own = Piece::unsealed(vec![rank as u8; lengths[rank]]);
            let gather = Move::AllGather { own, all, lengths };
            let piece =
                Piece::unsealed(if rank == 1 { pattern(1, 9, 1000) } else { vec![0; 1000] });
            let broadcast = Move::Broadcast { from: 1, piece, bytes: 1000 };
            let together = engine.start(vec![gather, broadcast]).unwrap();
            let pieces = ended(&mut *engine, together);
            let expected = [vec![0; 5], vec![2; 70_000]].concat();
            assert!(pieces[1].bytes() == expected && pieces[2].bytes() == pattern(1, 9, 1000));
            for (from, piece) in others.zip(ended(&mut *engine, received)) {
                assert!(piece.bytes() == pattern(from, rank, BYTES), "from {from} to {rank}");
            }
            ended(&mut *engine, sent);
            engine.close().unwrap();
        },
        |_| {},
    );
}

#[test]
fn strangers_are_dropped_while_ranks_come() {
    let mut strangers = Vec::new();
    let worlds = |engine: Box<dyn Engine>| {
        let (settings, said) = settings();
        let world = World::connect(Line::new(engine), None, &settings).unwrap();
        let mut numbers: Vec<f32> = (0..5000).map(|i| (i * (world.rank() + 1)) as f32).collect();
        let slices = Slices::new([[5000]], world.size());
        world.sum(&mut HostFloats::new([&mut numbers[..]]), &slices).unwrap();
        world.share(&mut HostFloats::new([&mut numbers[..]]), &slices).unwrap();
        assert!(numbers.iter().enumerate().all(|(i, sum)| *sum == 10.0 * i as f32));
        assert!(world.bandwidth().unwrap().concat().into_iter().flatten().count() == 8);
        world.finish().unwrap();
        assert!(said.lock().unwrap().is_empty());
    };
    let disturb = |port| {
        let call = |bytes: &[u8]| {
            let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stranger.write_all(bytes).unwrap();
            stranger
        };
        drop(call(b""));
        strangers.extend([
            call(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            call(b""),
            call(b"isrank01"),
        ]);
        strangers.push(call(&[&b"isrank01"[..], &[255; 5000]].concat()));
    };
    on_ranks(4, worlds, disturb);
    // Whoever is no rank has got no more than a greeting.
    for mut stranger in strangers {
        let mut heard = Vec::new();
        stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stranger.read_to_end(&mut heard); // it may be cut off
        assert!(heard.len() < 600, "{}", heard.len());
    }
}

#[test]
fn ranks_of_another_job_are_refused_and_the_job_goes_on() {
    let (listener, meeting) = meeting(2);
    let (settings, said) = settings();
    thread::scope(|scope| {
        let first = Meeting { listener: Some(listener), ..meeting(0) };
        let first = scope.spawn(|| begin(first, &settings).unwrap().0.close());
        let others = [
            (Meeting { key: "other".into(), ..meeting(1) }, "they have other keys"),
            (Meeting { size: 3, ..meeting(1) }, "rank 1 ("),
            (Meeting { size: 3, ..meeting(2) }, "is one of 3 ranks, and rank 0 ("),
        ];
        for (other, part) in others {
            let Err(Error::Start(refused)) = begin(other, &settings) else { panic!("{part}") };
            assert!(refused.contains(part), "{refused}");
        }
        let second = begin(meeting(1), &settings).unwrap().0.close();
        assert_eq!((first.join().unwrap(), second), (Ok(()), Ok(())));
    });
    // Rank 0 warns once in 10 s, because callers may be strangers.
    assert_eq!(said.lock().unwrap().len(), 1);
}

#[test]
fn a_second_process_of_a_rank_is_refused() {
    let (listener, meeting) = meeting(3);
    let (settings, _) = settings();
    thread::scope(|scope| {
        let first = Meeting { listener: Some(listener), ..meeting(0) };
        let mut ranks = vec![scope.spawn(|| begin(first, &settings).unwrap().0.close())];
        let (one, again) = (meeting(1), meeting(1));
        let second = scope.spawn(|| begin(one, &settings).map(|(mut engine, _)| engine.close()));
        let third = scope.spawn(|| begin(again, &settings).map(|(mut engine, _)| engine.close()));
        while !(second.is_finished() || third.is_finished()) {
            thread::sleep(Duration::from_millis(5));
        }
        let last = meeting(2);
        ranks.push(scope.spawn(|| begin(last, &settings).unwrap().0.close()));
        let both = [second.join().unwrap(), third.join().unwrap()];
        assert_eq!(both.iter().filter(|one| matches!(one, Ok(Ok(())))).count(), 1);
        let refused = both.iter().find_map(|one| one.as_ref().err()).unwrap();
        // Starting again may help, because the first may be lost with its machine.
        let Error::Engine(refused) = refused else { panic!("{refused}") };
        assert!(refused.contains("rank 1 (") && refused.contains("has come already"), "{refused}");
        assert!(ranks.into_iter().all(|rank| rank.join().unwrap() == Ok(())));
    });
}

#[test]
fn a_stranger_that_trickles_is_hung_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let stream = listener.accept().unwrap().0;
    let trickle = thread::spawn(move || {
        for byte in b"isrank01".iter().cycle() {
            if stranger.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let begun = Instant::now();
    assert!(handshake::hear(stream, "key", begun + Duration::from_millis(200)).unwrap().is_none());
    assert!(begun.elapsed() < Duration::from_secs(1));
    trickle.join().unwrap();
}

#[test]
fn nothing_is_awaited_of_a_rank_that_has_taken_leave() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut peer = peer::Peer::new(listener.accept().unwrap().0, "rank 1".into()).unwrap();
    let mut moves = PendingMoves::default();
    let ticket = moves.add(peer::Started { pieces: vec![Piece::zeros(8)], left: 1 });
    let span = || peer::Span { ticket, piece: 0, bytes: 0..8 };
    peer.receive(span(), &mut moves).unwrap();
    other.write_all(&[3, 0, 0, 0, 0, 0, 0, 0]).unwrap(); // a goodbye
    drop(other);
    let begun = Instant::now();
    while peer.read(true, &mut moves, |_| {}).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    assert!(peer.is_gone && peer.receive(span(), &mut moves).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any bytes from a rank are frames, or end its connection.
    #[test]
    fn any_bytes_can_come(
        kinds in prop::collection::vec((0u32..6, 0u32..300), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let headers = kinds.iter().flat_map(|(kind, bytes)| [kind, bytes].map(|n| n.to_le_bytes()));
        other.write_all(&[headers.flatten().collect(), noise].concat()).unwrap();
        drop(other);
        let mut peer = peer::Peer::new(listener.accept().unwrap().0, "rank 1".into()).unwrap();
        let mut moves = PendingMoves::default();
        let ticket = moves.add(peer::Started { pieces: vec![Piece::zeros(200)], left: 1 });
        peer.receive(peer::Span { ticket, piece: 0, bytes: 0..200 }, &mut moves).unwrap();
        while let Ok(()) = peer.read(true, &mut moves, |_| {}) {
            if peer.is_gone {
                break;
            }
        }
        prop_assert!(moves.take(ticket).unwrap().left <= 1);
    }
}
