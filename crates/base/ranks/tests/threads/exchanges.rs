//! Records, answers and facts that all ranks come to have.

use super::{on_ranks, patient};
use isentrope_ranks::{HostFloats, Settings, Slices, Traffic, Watch, World};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// A record of a rank that shows what was mixed up.
fn record(rank: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + rank * 7 + at / 251) as u8).collect()
}

#[test]
fn records_come_in_rank_order_whatever_their_lengths() {
    // More than one piece of an all-gather, nothing, and little.
    let lengths = [9 << 20, 0, 5, 6 << 20];
    let gathered = on_ranks(4, &patient(), |world, _| {
        let rank = world.rank();
        world.gather(&record(rank, lengths[rank])).unwrap()
    });
    let expected: Vec<_> =
        lengths.iter().enumerate().map(|(rank, &bytes)| record(rank, bytes)).collect();
    assert!(gathered.iter().all(|records| *records == expected));
}

#[test]
fn what_rank_0_says_all_hear() {
    for bytes in [0, 1, 3 << 20] {
        let heard = on_ranks(3, &patient(), |world, _| {
            let own = if world.is_first() { record(0, bytes) } else { b"ignored".to_vec() };
            world.broadcast(&own).unwrap()
        });
        assert!(heard.iter().all(|heard| *heard == record(0, bytes)));
    }
}

#[test]
fn one_that_wants_to_stop_is_heard() {
    let stops = |who: Option<usize>| {
        on_ranks(3, &patient(), |world, _| world.any(Some(world.rank()) == who).unwrap())
    };
    assert_eq!(stops(Some(2)), [true; 3]);
    assert_eq!(stops(None), [false; 3]);
}

#[test]
fn all_know_the_least_value() {
    let least = |values: [u64; 3]| {
        on_ranks(3, &patient(), |world, _| world.least(values[world.rank()]).unwrap())
    };
    assert_eq!(least([7, 1 << 40, 9]), [7; 3]);
    assert_eq!(least([u64::MAX, 5, 0]), [0; 3]);
    assert_eq!(World::alone().least(3), Ok(3));
}

#[test]
fn ranks_know_each_others_places_and_finish() {
    let finished = on_ranks(3, &patient(), |world, _| {
        assert_eq!((world.hosts().len(), world.size()), (3, 3));
        let node = world.node().unwrap();
        assert_eq!((node.ranks.as_slice(), node.threads), (&[0, 1, 2][..], 3));
        assert!(world.name(2).starts_with("rank 2 ("));
        world.finish()
    });
    assert_eq!(finished, [Ok(()), Ok(()), Ok(())]);
}

#[test]
fn bandwidth_is_known_of_all_neighbours_to_all() {
    let measured = on_ranks(3, &patient(), |world, _| world.bandwidth().unwrap());
    assert!(measured.iter().all(|all| *all == measured[0]));
    let has: Vec<Vec<bool>> =
        measured[0].iter().map(|of_rank| of_rank.iter().map(Option::is_some).collect()).collect();
    // Three ranks: 0 and 1 are neighbours, and 0 and 2.
    assert_eq!(has, [[true, true], [true, false], [false, true]]);
}

#[test]
fn a_sum_sends_as_many_bytes_as_around_a_ring() {
    let numbers = 1 << 20;
    for ranks in [2, 4, 3] {
        let sent = on_ranks(ranks, &patient(), |world, _| {
            let before = world.traffic().sent_bytes;
            let mut gradient = vec![1.0; numbers];
            world
                .sum(&mut HostFloats::new([&mut gradient[..]]), &Slices::new([[numbers]], ranks))
                .unwrap();
            world.traffic().sent_bytes - before
        });
        let ring = 4 * numbers * (ranks - 1) / ranks;
        for sent in sent {
            // Beside it go headers, seals, and what an uneven cut makes of it.
            let more = sent as f64 / ring as f64 - 1.0;
            assert!(
                (-0.01..0.01).contains(&more),
                "{sent} bytes of {ranks} ranks, {ring} around a ring"
            );
        }
    }
}

#[test]
fn ranks_that_share_a_directory_find_it_and_leave_nothing_there() {
    let dir = tempfile::tempdir().unwrap();
    let found = on_ranks(3, &patient(), |world, _| {
        world.require_directory(dir.path(), "run.out").unwrap();
        // One of them looks where the first leaves nothing.
        let elsewhere = dir.path().join("other");
        let place = if world.rank() == 2 { &elsewhere } else { dir.path() };
        world.without_directory(place).unwrap()
    });
    assert_eq!(found, vec![Some(vec![2]); 3]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn one_alone_gets_what_it_gives() {
    let world = World::alone();
    assert_eq!((world.rank(), world.size(), world.is_first()), (0, 1, true));
    assert_eq!(world.gather(b"abc"), Ok(vec![b"abc".to_vec()]));
    assert_eq!(world.broadcast(b"abc"), Ok(b"abc".to_vec()));
    assert_eq!((world.any(true), world.any(false)), (Ok(true), Ok(false)));
    assert_eq!(world.same("recipe", "x"), Ok(()));
    let mut numbers = [1.0, 2.0];
    let slices = Slices::new([[2]], 1);
    world.sum(&mut HostFloats::new([&mut numbers[..]]), &slices).unwrap();
    world.share(&mut HostFloats::new([&mut numbers[..]]), &slices).unwrap();
    assert_eq!(numbers, [1.0, 2.0]);
    assert!(slices.of_rank(0).into_iter().flatten().eq(0..2));
    assert_eq!(world.traffic(), Traffic::default());
    assert_eq!(world.finish(), Ok(()));
}

#[test]
fn who_is_at_work_hears_that_others_wait() {
    let period = Duration::from_millis(20);
    let limit = Some(Duration::from_secs(1));
    for busy in [0, 2] {
        let watch = Watch { silent: limit, period };
        let looked = Barrier::new(3);
        let counted = on_ranks(3, &Settings { watch, ..patient() }, |world, _| {
            // An exchange before it: old heartbeats may still report it.
            world.any(false).unwrap();
            let mut met = Vec::new();
            for round in 0..3u8 {
                if world.rank() == busy {
                    // Ranks may wait longer than one may be silent.
                    let least = Duration::from_millis(if round == 0 { 1800 } else { 0 });
                    let begun = Instant::now();
                    while begun.elapsed() < least || !world.is_called() {
                        world.report("sampling", 0, 0);
                        assert!(begun.elapsed() < Duration::from_secs(60), "nobody calls");
                        thread::sleep(period / 10);
                    }
                }
                met.push(world.balance(&[round, world.rank() as u8]).unwrap());
                assert!(!world.is_called(), "that exchange is over");
                looked.wait(); // nobody waits in the next one before all have looked
            }
            (met, world.finish())
        });
        for (met, finished) in counted {
            let expected: Vec<Vec<Vec<u8>>> =
                (0..3).map(|round| (0..3).map(|rank| vec![round, rank]).collect()).collect();
            assert_eq!((met, finished), (expected, Ok(())));
        }
    }
}

#[test]
fn nobody_is_called_where_nobody_waits() {
    let end = Barrier::new(2);
    on_ranks(2, &patient(), |world, _| {
        world.any(false).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            assert!(!world.is_called());
            thread::yield_now();
        }
        end.wait();
        world.finish().unwrap();
    });
    assert!(!World::alone().is_called());
    assert_eq!(World::alone().balance(b"left"), Ok(vec![b"left".to_vec()]));
}

#[test]
fn who_is_at_work_hears_that_another_has_failed() {
    let told = on_ranks(3, &patient(), |world, _| {
        if world.rank() == 1 {
            return world.fail("no verifier");
        }
        let begun = Instant::now();
        while !world.is_called() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody calls");
            thread::yield_now();
        }
        world.balance(b"left").unwrap_err()
    });
    assert!(
        told.iter().all(|of_rank| *of_rank == told[0])
            && told[0].to_string().ends_with("): no verifier")
    );
}
