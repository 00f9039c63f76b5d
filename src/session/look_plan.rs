//! What a look through the control client asks for.

use super::effect::{LookOrder, Scope};

/// What is known when a look begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an observation of its own, and all combinations occur"
)]
pub(crate) struct LookFacts {
    /// Whether all reports of tmux have arrived, if the order asks for that. Where windows are named,
    /// the look at them is the barrier, and this is true.
    pub(crate) is_synced: bool,
    /// Whether a report that triggers a look arrived just now.
    pub(crate) has_trigger: bool,
    /// Whether windows were reported as changed or closed, panes as printing, or processes as
    /// ended.
    pub(crate) has_reports: bool,
    /// Whether panes are paused for our client.
    pub(crate) is_any_paused: bool,
    /// Whether a sweep is under way.
    pub(crate) is_sweeping: bool,
    /// Whether the server has not run since the last sweep.
    pub(crate) is_swept: bool,
}

/// What a look asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookPlan {
    /// Nothing: nothing was reported.
    NotNeeded,
    /// Nothing: the server has not run since the last sweep.
    Unchanged,
    /// Windows that were reported or named.
    Reported,
    /// As [`LookPlan::Reported`], and a part of a sweep.
    Part,
    /// All windows.
    Whole,
}

impl LookPlan {
    /// Decides what a look asks for.
    #[must_use]
    pub(crate) fn new(order: &LookOrder, facts: LookFacts) -> Self {
        let is_named = !order.windows.is_empty() || !order.killed.is_empty();
        let is_trigger_known = is_named || facts.has_reports;
        match order.scope {
            Scope::Reported if facts.is_synced && !is_trigger_known => Self::NotNeeded,
            Scope::Whole => Self::Whole,
            Scope::Reported | Scope::Existence => Self::Reported,
            Scope::Part if begins_in_vain(facts) && !is_trigger_known => Self::Unchanged,
            Scope::Part => Self::Part,
        }
    }

    /// Whether a look that was taken need not be processed: it is a part of a sweep without any report,
    /// the sweep `goes_on`, and everything `is_same` as before.
    #[must_use]
    pub(crate) fn is_in_passing(self, facts: LookFacts, goes_on: bool, is_same: bool) -> bool {
        self == Self::Part && !facts.has_reports && goes_on && is_same
    }
}

/// Whether a sweep would begin that finds nothing.
fn begins_in_vain(facts: LookFacts) -> bool {
    !facts.is_sweeping && facts.is_swept && !facts.has_trigger && !facts.is_any_paused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WindowId;

    const QUIET: LookFacts = LookFacts {
        is_synced: true,
        has_trigger: false,
        has_reports: false,
        is_any_paused: false,
        is_sweeping: false,
        is_swept: true,
    };

    const REPORTED: LookFacts = LookFacts {
        has_trigger: true,
        has_reports: true,
        ..QUIET
    };

    #[track_caller]
    fn check(order: &LookOrder, facts: LookFacts, expected: LookPlan) {
        assert_eq!(LookPlan::new(order, facts), expected, "{order:?} {facts:?}");
    }

    #[test]
    fn a_look_for_reports_needs_reports_or_names() {
        let order = LookOrder::new(Scope::Reported);
        check(&order, QUIET, LookPlan::NotNeeded);
        check(&order, REPORTED, LookPlan::Reported);
        check(&LookOrder::of([WindowId(1)]), QUIET, LookPlan::Reported);
        // It is not known what tmux has still to report.
        let not_synced = LookFacts {
            is_synced: false,
            ..QUIET
        };
        check(&order, not_synced, LookPlan::Reported);
        check(&LookOrder::new(Scope::Existence), QUIET, LookPlan::Reported);
    }

    #[test]
    fn only_an_unchanged_part_of_a_sweep_that_goes_on_need_not_be_processed() {
        assert!(LookPlan::Part.is_in_passing(QUIET, true, true));
        for (plan, facts, goes_on, is_same) in [
            (LookPlan::Part, QUIET, false, true),
            (LookPlan::Part, QUIET, true, false),
            (LookPlan::Part, REPORTED, true, true),
            (LookPlan::Reported, QUIET, true, true),
            (LookPlan::Whole, QUIET, true, true),
        ] {
            let is_in_passing = plan.is_in_passing(facts, goes_on, is_same);
            assert!(!is_in_passing, "{plan:?} {facts:?} {goes_on} {is_same}");
        }
    }

    #[test]
    fn a_sweep_begins_only_if_the_server_has_run_since_the_last_one() {
        let order = LookOrder::new(Scope::Part);
        check(&order, QUIET, LookPlan::Unchanged);
        for changed in [
            LookFacts {
                is_swept: false,
                ..QUIET
            },
            LookFacts {
                is_sweeping: true,
                ..QUIET
            },
            LookFacts {
                is_any_paused: true,
                ..QUIET
            },
            REPORTED,
        ] {
            check(&order, changed, LookPlan::Part);
        }
    }
}
