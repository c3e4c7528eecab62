//! Who gets a place, and whose.

use std::task::Waker;

use futures::FutureExt;

use super::*;

fn places(max: usize, per_source: usize) -> Places {
    Places::new(max, per_source, Proxies::new(&["10.0.0.0/8".parse().unwrap()]))
}

fn enter(places: &Places, peer: &str) -> Result<Place, Refused> {
    places.try_enter(peer.parse().unwrap())
}

#[track_caller]
fn entered(places: &Places, peer: &str) -> Place {
    enter(places, peer).unwrap_or_else(|refused| panic!("{refused:?}"))
}

fn is_displaced(place: &Place) -> bool {
    place.poll_displaced(&Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn at_a_full_listener_the_one_that_has_waited_longest_gives_its_place() {
    let places = places(3, 9);
    let [first, second, third] = [(); 3].map(|()| entered(&places, "192.0.2.1"));
    // The first has sent a request and got its answer: it has waited for a shorter time than the others.
    assert!(first.work());
    first.answer();
    first.wait();
    entered(&places, "192.0.2.2");
    assert_eq!([&first, &second, &third].map(is_displaced), [false, true, false]);
    assert!(!second.work(), "what it sends now is not worked on");
}

#[test]
fn the_source_with_the_most_connections_gives_first() {
    let places = places(4, 9);
    let quiet = entered(&places, "192.0.2.1");
    let many = [(); 3].map(|()| entered(&places, "192.0.2.2"));
    for number in 0..2 {
        entered(&places, &format!("192.0.2.{}", 3 + number));
    }
    assert!(!is_displaced(&quiet), "it came first, and is one of few");
    assert_eq!(many.each_ref().map(is_displaced), [true, true, false]);
}

#[test]
fn a_few_connections_more_do_not_make_a_source_heavier() {
    let places = places(3, 3 * STEPS);
    let stranger = entered(&places, "192.0.2.1");
    let pair = [(); 2].map(|()| entered(&places, "192.0.2.2"));
    entered(&places, "192.0.2.3");
    assert!(is_displaced(&stranger), "it has waited longest");
    assert_eq!(pair.each_ref().map(is_displaced), [false, false]);
}

#[test]
fn who_does_not_read_gives_its_place_after_those_who_do_not_send() {
    let places = places(2, 9);
    let (unread, silent) = (entered(&places, "192.0.2.1"), entered(&places, "192.0.2.1"));
    assert!(unread.work());
    unread.answer();
    unread.block();
    let third = entered(&places, "192.0.2.2");
    assert!(third.work());
    assert_eq!((is_displaced(&unread), is_displaced(&silent)), (false, true));
    entered(&places, "192.0.2.2");
    assert!(is_displaced(&unread));
}

#[tokio::test]
async fn a_request_under_way_is_never_cut_off_and_the_next_connection_waits_for_it() {
    let places = places(1, 9);
    let busy = entered(&places, "192.0.2.1");
    assert!(busy.work());
    assert_eq!(enter(&places, "192.0.2.2").err(), Some(Refused::Full));
    let mut waiting = std::pin::pin!(places.enter("192.0.2.2".parse().unwrap()));
    assert!(waiting.as_mut().now_or_never().is_none());
    busy.answer();
    assert!(waiting.as_mut().now_or_never().is_none(), "the answer is being written");
    busy.wait();
    let next = waiting.await.ok().unwrap();
    assert!(is_displaced(&busy) && next.work());
    let mut waiting = std::pin::pin!(places.enter("192.0.2.3".parse().unwrap()));
    assert!(waiting.as_mut().now_or_never().is_none());
    next.leave();
    assert!(waiting.await.is_ok());
}

#[test]
fn a_full_source_displaces_its_own_and_nobody_else() {
    let places = places(9, 2);
    let other = entered(&places, "192.0.2.1");
    let own = [(); 2].map(|()| entered(&places, "192.0.2.2"));
    let third = entered(&places, "192.0.2.2");
    assert_eq!((is_displaced(&other), own.each_ref().map(is_displaced)), (false, [true, false]));
    assert!(own[1].work() && third.work());
    assert_eq!(enter(&places, "192.0.2.2").err(), Some(Refused::Source), "both are at work");
    assert!(enter(&places, "192.0.2.3").is_ok());
    third.leave();
    assert!(enter(&places, "192.0.2.2").is_ok());
}

#[test]
fn a_trusted_proxy_has_as_many_connections_as_it_likes_and_gives_last() {
    let places = places(4, 1);
    let proxied = [(); 3].map(|()| entered(&places, "10.0.0.1"));
    let direct = entered(&places, "192.0.2.1");
    entered(&places, "192.0.2.2");
    assert!(is_displaced(&direct) && !is_displaced(&proxied[0]), "one connection outweighs a proxy's many");
}

#[test]
fn a_source_that_left_is_forgotten() {
    let places = places(1, 1);
    let place = entered(&places, "192.0.2.1");
    entered(&places, "192.0.2.1").leave();
    place.leave();
    assert!(place.work() || enter(&places, "192.0.2.2").is_ok());
    let taken = places.0.lock();
    assert!(!taken.sources.contains_key(&Source::of("192.0.2.1".parse().unwrap())));
}

#[test]
fn of_too_many_with_a_large_buffer_the_one_that_has_waited_longest_ends() {
    let places = places(LARGE_MAX + 3, LARGE_MAX + 3);
    let small = entered(&places, "192.0.2.1");
    let large: Vec<Place> = (0..LARGE_MAX).map(|_| entered(&places, "192.0.2.1")).collect();
    for place in &large {
        place.enlarge();
        place.enlarge();
    }
    assert!(!large.iter().any(is_displaced));
    let another = entered(&places, "192.0.2.2");
    another.enlarge();
    assert!(is_displaced(&large[0]) && !large[0].work());
    assert!(!large[1..].iter().chain([&small, &another]).any(is_displaced));
    // One that leaves makes room, and one that has left takes none.
    let gone = entered(&places, "192.0.2.3");
    gone.leave();
    gone.enlarge();
    large[1].leave();
    small.enlarge();
    assert!(!large[2..].iter().chain([&small, &another]).any(is_displaced));
}

#[test]
fn a_large_buffer_cuts_off_no_request_under_way_but_its_own_connection() {
    let places = places(LARGE_MAX + 1, LARGE_MAX + 1);
    let large: Vec<Place> = (0..LARGE_MAX).map(|_| entered(&places, "192.0.2.1")).collect();
    for place in &large {
        place.enlarge();
        assert!(place.work());
    }
    let another = entered(&places, "192.0.2.2");
    another.enlarge();
    assert!(is_displaced(&another) && !another.work());
    assert!(!large.iter().any(is_displaced));
}
