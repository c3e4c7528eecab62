//! The suite that every backend must pass, and the model that it must agree with.
//!
//! A backend's test is a few lines: a function that makes an empty store, and
//! [`conformance_suite!`](crate::conformance_suite) with the function's name. Each behaviour is a function
//! here, in the file of its noun; the macro makes a test of it in the backend.

#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these are tests: a panic is their message"
)]

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Store;

pub mod alerts;
pub mod balances;
pub mod clearings;
pub mod corridors;
pub mod damaged;
pub mod deliveries;
pub mod delivery_rules;
pub mod endpoints;
pub mod fixtures;
pub mod imports;
pub mod jobs;
pub mod keys;
pub mod master_keys;
pub mod merchants;
pub mod model;
pub mod operations;
pub mod operators;
pub mod payment_searches;
pub mod payments;
pub mod proposals;
pub mod providers;
pub mod queue;
pub mod reports;
pub mod schema;
pub mod settlements;

/// An empty store, not migrated yet, and a value that must live as long as it does.
pub struct ScratchStore {
    store: Arc<dyn Store>,
    backdoor: Box<dyn Backdoor>,
}

/// The database of a scratch store, as somebody else sees it. It lives as long as this value.
#[async_trait]
pub trait Backdoor: Send + Sync {
    /// Executes a statement.
    async fn execute(&self, sql: &'static str);
}

impl ScratchStore {
    /// A store, and the way around it.
    pub fn new(store: Arc<dyn Store>, backdoor: impl Backdoor + 'static) -> ScratchStore {
        ScratchStore { store, backdoor: Box::new(backdoor) }
    }

    /// Does to the database what no version of ours does, for example damages a row.
    pub async fn execute(&self, sql: &'static str) {
        self.backdoor.execute(sql).await;
    }

    /// The store without a schema.
    #[must_use]
    #[expect(
        clippy::unused_async,
        reason = "so that the suite can choose between this and `migrated` by name"
    )]
    pub async fn empty(self) -> ScratchStore {
        self
    }

    /// The store with its schema.
    #[must_use]
    pub async fn migrated(self) -> ScratchStore {
        self.store.migrate().await.expect("an empty store can be migrated");
        self
    }

    /// The store alone.
    #[must_use]
    pub fn alone(&self) -> &dyn Store {
        &*self.store
    }

    /// The store with the way around it.
    #[must_use]
    pub fn with_backdoor(&self) -> &ScratchStore {
        self
    }

    /// The store, to be shared.
    #[must_use]
    pub fn share(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
}

impl Deref for ScratchStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// Makes every behaviour of the suite a test of a backend. The given function makes the backend's empty
/// store.
#[macro_export]
macro_rules! conformance_suite {
    ($scratch:ident) => {
        $crate::conformance_suite! { @nouns $scratch, empty, alone;
            schema {
                a_new_database_has_every_migration_pending,
                migrating_again_or_together_changes_nothing,
            }
        }
        $crate::conformance_suite! { @nouns $scratch, migrated, alone;
            merchants {
                merchants_are_listed_in_pages_by_id,
                a_merchant_is_found_by_its_id,
                only_existing_merchants_can_be_locked,
                a_relaxed_transaction_is_one,
                every_write_refuses_the_lock_of_another_transaction,
                every_write_refuses_a_merchant_that_its_lock_leaves_out,
                what_is_not_committed_leaves_no_trace,
            }
            keys {
                a_key_is_found_by_its_hash,
                a_revoked_key_is_gone_at_once,
                keys_are_listed_for_their_merchant_alone,
                a_key_is_shown_under_its_merchant_alone,
                a_key_of_an_unknown_merchant_is_refused,
            }
            operators {
                an_operator_is_found_until_revoked,
                an_operators_name_is_unique,
            }
            master_keys {
                a_master_key_is_remembered_once,
                of_two_first_rings_one_is_in_use,
                uses_are_counted_by_master_key,
                what_another_master_key_sealed_is_found_in_pages,
                only_what_is_unchanged_is_sealed_anew,
            }
            settlements {
                newest_first_and_ties_by_id,
                total_is_exact_on_every_page,
                a_merchant_sees_its_own_alone,
                the_same_again_changes_nothing,
                other_content_conflicts,
                repetitions_inside_a_batch,
                what_was_recorded_unchecked_is_remembered,
                a_payments_id_or_pay_in_conflicts,
                deep_pages_agree_with_a_walk,
                an_unknown_merchant_has_no_page,
            }
            imports {
                an_import_is_recorded_in_steps,
                staged_settlements_and_payments_are_in_each_others_way,
                nothing_of_a_discarded_import_is_recorded,
                what_is_there_is_not_staged,
                other_content_is_not_staged,
                two_imports_may_have_the_same,
                nobody_records_against_what_is_staged,
                an_import_is_accepted_with_all_its_rows_alone,
                a_row_is_taken_once,
                an_import_is_adopted_once,
                imports_under_way_are_bounded,
                a_crash_at_any_step_leaves_it_as_it_was,
                a_whole_batch_is_staged,
            }
            deliveries {
                newest_first_with_every_field,
                totals_by_status,
                a_merchant_sees_its_own_alone,
                an_outcome_changes_only_a_pending_row,
                an_outcome_changes_only_what_was_seen,
                requeue_of_a_dead_row,
                requeue_finds_nothing_else,
                a_requeue_does_not_move_its_row,
                requeue_of_many_changes_the_dead_ones_alone,
                a_search_finds_all_merchants_newest_first,
                a_search_gives_what_its_filter_says,
                a_search_goes_on_where_it_ended,
                a_walk_meets_what_dies_again_once,
                deliveries_are_found_by_id_alone,
            }
            delivery_rules {
                requeue_is_the_domains_redelivery_asked,
                hasten_is_the_domains_haste_asked,
                clear_is_the_domains_endpoint_gone,
            }
            endpoints {
                put_find_replace,
                clear_ends_what_is_pending,
                clear_touches_no_other_merchant,
                found_in_the_transaction_that_put_it,
            }
            clearings {
                steps_end_what_a_clear_left,
                a_step_ends_many_first_due_first,
                a_clear_that_ends_all_leaves_nothing,
                what_a_clear_left_is_never_sent,
                a_redelivery_waits_for_its_step,
                clearings_of_one_endpoint_follow_each_other,
                a_step_that_is_not_committed_leaves_no_trace,
                a_step_touches_no_other_merchant,
            }
            queue {
                a_due_merchant_is_found_in_its_shard,
                what_is_due_later_than_anybody_waits_counts_as_due,
                the_time_a_merchant_is_due_follows_its_deliveries,
                a_claim_gives_what_an_attempt_needs,
                a_claim_takes_the_first_due,
                a_claim_takes_only_what_is_pending,
                depth_counts_what_waits,
                a_merchant_is_due_for_what_came_with_an_outcome,
                a_merchant_is_due_for_what_came_before_what_waits,
                a_lone_keeper_holds_every_shard,
                a_dead_keeper_is_replaced_at_once,
                duties_have_leases_of_their_own,
                released_shards_are_free,
            }
            alerts {
                deaths_of_one_endpoint_are_one_alert_that_counts,
                the_first_hundred_deliveries_are_named,
                what_a_clock_ahead_put_off_is_due,
                the_quiet_time_is_no_longer_after_a_clock_was_ahead,
                each_endpoint_has_an_alert_of_its_own,
                a_taken_alert_is_closed_and_the_next_waits,
                deaths_that_come_while_an_alert_is_taken_wait,
                what_is_not_committed_alerts_nobody,
                a_taken_alert_is_held,
                two_who_take_together_do_not_take_the_same,
                a_sent_alert_is_done,
                an_alert_that_was_put_off_comes_back,
                an_alert_is_of_its_merchant,
                an_endpoint_has_one_alert_under_way,
                as_many_alerts_as_wanted_are_taken,
                every_kind_has_alerts_of_its_own,
                a_subject_may_happen_with_ids_and_without,
                an_alert_of_a_merchant_needs_its_lock,
            }
            proposals {
                a_proposal_is_approved_once,
            }
            providers {
                a_pause_holds_until_it_is_ended,
            }
            corridors {
                a_change_is_a_new_version,
                a_corridor_is_of_its_merchant,
                a_version_that_is_not_committed_leaves_no_trace,
            }
            payments {
                a_pay_in_is_one_payment,
                a_payment_that_is_like_another_is_known,
                a_pay_in_that_was_recorded_by_hand_is_no_payment,
                a_completed_payment_that_comes_again_is_the_same,
                repetitions_inside_a_batch_of_payments,
                a_change_needs_the_present_version,
                a_claim_takes_the_first_payments_due,
                a_claim_passes_over_providers_that_have_no_place,
                a_merchant_is_due_for_its_payments,
                a_payment_has_a_timeline_and_pricing,
                the_pricing_of_many_payments_is_read_at_once,
            }
            payment_searches {
                an_operator_finds_payments_by_their_marks,
                a_search_finds_payments_by_each_of_its_ways,
                payments_are_late_by_the_newest_terms_of_their_corridor,
                a_payment_whose_request_cannot_be_read_is_late_as_well,
                blocked_payments_are_counted_by_provider,
            }
            operations {
                an_operation_is_found_by_payment_and_by_id,
                operations_are_found_by_many_ids,
                what_belongs_to_no_payment_is_refused,
                the_database_forbids_a_second_live_operation,
                what_has_ended_cannot_be_live,
            }
            reports {
                a_report_counts_each_operation_once,
                what_was_accepted_and_not_listed_is_found_in_steps,
                what_became_known_later_counts_from_then,
                what_was_listed_is_forgotten_in_steps,
            }
            jobs {
                a_job_is_one_processes_at_a_time,
                who_lost_a_job_writes_nothing,
                a_job_put_off_by_a_clock_ahead_is_due,
            }
            balances {
                a_balance_is_the_sum_of_its_postings,
                postings_that_are_not_committed_leave_no_trace,
                an_audit_sees_one_moment,
                an_audit_gives_payments_in_pages_with_all_that_is_theirs,
            }
        }
        $crate::conformance_suite! { @nouns $scratch, migrated, with_backdoor;
            damaged {
                an_event_type_of_another_version_is_unexpected,
                a_delivery_that_cannot_be_read_does_not_keep_others_from_being_claimed,
                a_payment_that_cannot_be_read_does_not_keep_others_from_being_claimed,
                a_pause_that_cannot_be_read_holds_and_so_do_others,
            }
        }
    };
    (@nouns $scratch:ident, $state:ident, $seen:ident; $($noun:ident { $($behaviour:ident,)+ })+) => {
        $(mod $noun {
            $(#[tokio::test]
            async fn $behaviour() {
                let scratch = super::$scratch().await.$state().await;
                ::settle_store::conformance::$noun::$behaviour(scratch.$seen()).await;
            })+
        })+
    };
}
