//! `settle migrate`.

use settle_testing::binary::Settle;

on_both_stores! {
    it_says_what_it_did_and_does_it_once,
    other_commands_migrate_by_themselves,
    commands_that_read_do_not_migrate,
    nothing_but_migrate_does_if_the_settings_say_so,
    two_at_once_both_succeed,
}

fn it_says_what_it_did_and_does_it_once(settle: &Settle) {
    // The command makes the folder of the database.
    let first = settle.run(&["migrate"]);
    assert!(first.ok().starts_with("Applied "), "{first:?}");
    let second = settle.run(&["migrate"]);
    assert_eq!(second.ok(), "Nothing to do.\n");
}

fn other_commands_migrate_by_themselves(settle: &Settle) {
    settle.merchant();
    assert_eq!(settle.run(&["migrate"]).ok(), "Nothing to do.\n");
}

fn commands_that_read_do_not_migrate(settle: &Settle) {
    for command in
        [["merchant", "list"], ["operator", "list"], ["delivery", "list"], ["master-key", "status"]]
    {
        assert!(settle.run(&command).failed().contains("settle migrate"), "{command:?}");
    }
    assert!(settle.run(&["migrate"]).ok().starts_with("Applied "), "nothing was done before");
    settle.run(&["merchant", "list"]).ok();
}

fn nothing_but_migrate_does_if_the_settings_say_so(settle: &mut Settle) {
    settle.set("SETTLE_DATABASE__MIGRATE", "false");
    for command in [&["serve"][..], &["merchant", "create", "A"]] {
        assert!(settle.run(command).failed().contains("settle migrate"), "{command:?}");
    }
    settle.run(&["migrate"]).ok();
    settle.merchant();
}

fn two_at_once_both_succeed(settle: &Settle) {
    let start = || settle.command(&["migrate"]).spawn().expect("the binary runs");
    let both = [start(), start()];
    for child in both {
        assert!(child.wait_with_output().expect("it ends").status.success());
    }
    assert_eq!(settle.run(&["migrate"]).ok(), "Nothing to do.\n");
}
