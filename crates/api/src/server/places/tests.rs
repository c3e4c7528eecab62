//! Who gets a place, and whose.

use std::task::Waker;

use futures::FutureExt;
use proptest::prelude::*;

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

fn found(places: &Places, among: Among) -> usize {
    places.0.lock().found.get(&among).map_or(0, Vec::len)
}

/// A crowd that comes again and again does not make the listener look at all connections each time.
#[test]
fn those_who_give_the_next_places_are_found_together_and_give_in_turn() {
    const MANY: usize = FOUND_MAX + 10;
    let places = places(MANY, 2 * STEPS * MANY);
    let many: Vec<Place> = (0..MANY).map(|_| entered(&places, "192.0.2.1")).collect();
    for (number, place) in many.iter().enumerate() {
        entered(&places, "192.0.2.2");
        assert!(is_displaced(place) && !many[number + 1..].iter().any(is_displaced), "{number}");
        assert_eq!(found(&places, Among::Everybody), (2 * FOUND_MAX - 1 - number) % FOUND_MAX, "{number}");
    }
}

#[test]
fn a_full_source_finds_its_own_together() {
    let places = places(90, 2 * STEPS);
    let own = [(); 2 * STEPS].map(|()| entered(&places, "192.0.2.1"));
    for number in 0..4 {
        entered(&places, "192.0.2.1");
        assert!(is_displaced(&own[number]) && !own[number + 1..].iter().any(is_displaced));
        let own = Among::Source(Source::of("192.0.2.1".parse().unwrap()));
        assert_eq!(found(&places, own), 2 * STEPS - 1 - number);
    }
}

#[test]
fn who_went_to_work_or_left_after_being_found_does_not_give_its_place() {
    let places = places(6, 9 * STEPS);
    let [first, second, third, fourth, fifth, sixth] = [(); 6].map(|()| entered(&places, "192.0.2.1"));
    entered(&places, "192.0.2.2");
    assert!(is_displaced(&first) && found(&places, Among::Everybody) == 5);
    assert!(second.work());
    third.answer();
    third.wait();
    fourth.leave();
    // The first takes the place that was left.
    for _ in 0..2 {
        entered(&places, "192.0.2.2");
    }
    let rest = [&second, &third, &fifth, &sixth];
    assert_eq!(rest.map(is_displaced), [false, false, true, false]);
}

#[test]
fn a_source_that_became_heavier_gives_before_those_who_were_found() {
    let places = places(2 * STEPS, 2 * STEPS);
    let quiet: Vec<Place> =
        (0..2 * STEPS).map(|number| entered(&places, &format!("192.0.2.{number}"))).collect();
    let crowd = [(); 3].map(|()| entered(&places, "198.51.100.1"));
    assert_eq!(quiet.iter().filter(|place| is_displaced(place)).count(), 2, "until it was a step heavier");
    assert_eq!(crowd.each_ref().map(is_displaced), [true, false, false]);
}

/// A crowd of which hardly anybody waits does not make others give for the time in which it is at work.
#[test]
fn only_the_next_one_is_found_while_a_heavier_source_is_at_work() {
    let places = places(10, 2 * STEPS);
    let quiet = [1, 2, 3, 4].map(|number| entered(&places, &format!("192.0.2.{number}")));
    let heavy = [(); 6].map(|()| entered(&places, "198.51.100.1"));
    assert!(heavy.iter().all(Place::work));
    entered(&places, "192.0.2.5");
    heavy[5].answer();
    heavy[5].wait();
    entered(&places, "192.0.2.6");
    assert_eq!(quiet.each_ref().map(is_displaced), [true, false, false, false]);
    assert!(is_displaced(&heavy[5]));
}

#[test]
fn only_the_next_one_is_found_among_those_who_do_not_read() {
    let places = places(3, 9 * STEPS);
    let unread = [(); 3].map(|()| entered(&places, "192.0.2.1"));
    for place in &unread {
        assert!(place.work());
        place.answer();
        place.block();
    }
    let silent = [(); 3].map(|()| entered(&places, "192.0.2.2"));
    assert_eq!(unread.each_ref().map(is_displaced), [true, false, false]);
    assert_eq!(silent.each_ref().map(is_displaced), [true, true, false]);
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Enter { source: u8 },
    Work { connection: usize, wants_body: bool },
    Starve { connection: usize },
    Answer { connection: usize },
    Block { connection: usize },
    Wait { connection: usize },
    Leave { connection: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let connection = 0_usize..40;
    let event = prop_oneof![
        6 => (1_u8..5).prop_map(|source| Event::Enter { source }),
        3 => (connection.clone(), any::<bool>())
            .prop_map(|(connection, wants_body)| Event::Work { connection, wants_body }),
        1 => connection.clone().prop_map(|connection| Event::Starve { connection }),
        2 => connection.clone().prop_map(|connection| Event::Answer { connection }),
        1 => connection.clone().prop_map(|connection| Event::Block { connection }),
        2 => connection.clone().prop_map(|connection| Event::Wait { connection }),
        1 => connection.prop_map(|connection| Event::Leave { connection }),
    ];
    prop::collection::vec(event, 1..120)
}

/// Lets it happen at a listener with these connections; says whether a place was refused.
fn happen(event: Event, places: &Places, connections: &mut Vec<Place>) -> Option<Refused> {
    let apply = |connection: usize, what: &dyn Fn(&Place)| {
        connections.get(connection).into_iter().for_each(what);
        None
    };
    match event {
        Event::Enter { source } => {
            enter(places, &format!("192.0.2.{source}")).map(|place| connections.push(place)).err()
        }
        Event::Work { connection, wants_body } => apply(connection, &|place| {
            place.want_body(wants_body);
            place.work();
        }),
        Event::Starve { connection } => apply(connection, &Place::starve),
        Event::Answer { connection } => apply(connection, &Place::answer),
        Event::Block { connection } => apply(connection, &Place::block),
        Event::Wait { connection } => apply(connection, &Place::wait),
        Event::Leave { connection } => apply(connection, &Place::leave),
    }
}

proptest! {
    /// One listener keeps whom it found, the other looks at everybody each time.
    #[test]
    fn who_was_found_earlier_gives_only_where_a_look_at_all_would_find_the_same(events in events()) {
        let listeners = [places(12, STEPS), places(12, STEPS)];
        let [mut kept, mut fresh] = [Vec::new(), Vec::new()];
        for event in events {
            listeners[1].0.lock().found.clear();
            let refused = happen(event, &listeners[0], &mut kept);
            prop_assert_eq!(refused, happen(event, &listeners[1], &mut fresh));
            let displaced = |connections: &[Place]| connections.iter().map(is_displaced).collect::<Vec<_>>();
            prop_assert_eq!(displaced(&kept), displaced(&fresh), "{:?}", event);
        }
    }
}

#[test]
fn one_that_gets_a_large_buffer_late_gives_before_those_who_were_found() {
    let places = places(LARGE_MAX + 9, 9 * LARGE_MAX);
    let late = [(); 2].map(|()| entered(&places, "192.0.2.1"));
    let large: Vec<Place> = (0..=LARGE_MAX).map(|_| entered(&places, "192.0.2.1")).collect();
    for place in large.iter().chain(&late) {
        place.enlarge();
    }
    assert!(is_displaced(&large[0]) && late.each_ref().map(is_displaced) == [true, true]);
    assert!(!large[1..].iter().any(is_displaced));
}

#[test]
fn one_of_a_heavier_source_that_gets_a_large_buffer_at_work_gives_before_those_who_were_found() {
    let places = places(2 * LARGE_MAX, 2 * STEPS);
    let light: Vec<Place> = (0..LARGE_MAX + 2)
        .map(|number| entered(&places, &format!("10.0.{}.{}", number / 256, number % 256)))
        .collect();
    let heavy = [(); 2 * STEPS].map(|()| entered(&places, "192.0.2.1"));
    for place in &light[..=LARGE_MAX] {
        place.enlarge();
    }
    assert!(is_displaced(&light[0]) && heavy[0].work());
    heavy[0].enlarge();
    assert!(is_displaced(&light[1]), "the heavy one does not wait");
    heavy[0].answer();
    heavy[0].wait();
    light[LARGE_MAX + 1].enlarge();
    assert!(is_displaced(&heavy[0]) && !light[2..].iter().any(is_displaced));
}

#[test]
fn a_source_that_became_lighter_does_not_give_before_others() {
    let places = places(9, 2 * STEPS);
    let quiet = entered(&places, "192.0.2.1");
    let crowd = [(); 8].map(|()| entered(&places, "198.51.100.1"));
    for number in 2..10 {
        entered(&places, &format!("192.0.2.{number}"));
    }
    assert_eq!(crowd.iter().filter(|place| is_displaced(place)).count(), 7);
    assert!(is_displaced(&quiet), "the last of the crowd weighs as much, and came later");
}

#[test]
fn a_source_that_left_is_forgotten() {
    let places = places(9, 2);
    let own = [(); 3].map(|()| entered(&places, "192.0.2.1"));
    let source = Source::of("192.0.2.1".parse().unwrap());
    assert_eq!(found(&places, Among::Source(source)), 1);
    for place in own {
        place.leave();
    }
    let taken = places.0.lock();
    assert!(taken.sources.is_empty() && taken.found.is_empty() && taken.occupants.is_empty());
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
