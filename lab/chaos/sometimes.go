package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"payonce/lab/chaos/plan"
	"payonce/lab/program"
	"payonce/lab/world"
)

// required is something that a run must have hit at least once, by its counter: a run in which it never happened proves
// nothing about it.
type required struct {
	group, name string
	since       length
}

// length is how long a run must be for something to be sure to happen in it.
type length int

const (
	quickRun  length = iota // 45 seconds
	normalRun               // a minute
	longRun                 // three minutes
)

// mustHappen lists what a run of that length must hit. The counters have these names in the report.
func mustHappen(of length, stripe bool, without []plan.BlowKind) []required {
	var all []required
	add := func(since length, group string, names ...string) {
		for _, name := range names {
			all = append(all, required{group, name, since})
		}
	}
	for _, kind := range plan.Kinds() {
		add(quickRun, "client", string(kind))
	}
	for _, kind := range plan.BlowKinds() {
		since := quickRun
		if kind == plan.LockTables {
			since = normalRun // a short run has one, and PostgreSQL may be down at that time
		}
		if !slices.Contains(without, kind) {
			add(since, "blow", string(kind))
		}
	}
	add(quickRun, "fault", "pm_ok", "pm_declined", "pm_slow", "pm_timeout_charged", "pm_silent_charged",
		"pm_timeout_not_charged", "pm_500_charged",
		"pm_500_not_charged", "pm_never", "pm_reset_charged", "pm_late_charge", "pm_wrong_amount", "pm_stuck",
		"pm_forgotten_key", "pm_booked_late")
	add(quickRun, "webhook", "duplicate", "reorder", "delay", "drop", "forge", "stale")
	add(quickRun, "mangled call", "cut before", "500 before", "cut after", "half an answer", "500 after", "400 after")
	add(quickRun, "answer", "201", "202", "402 payment_declined", "409 idempotency_key_in_progress",
		"422 idempotency_key_reused_with_different_payload", "503 psp_unavailable", "503 idempotency_store_unavailable",
		"400 invalid_request",
		"400 idempotency_key_invalid", "400 idempotency_key_missing", "401 unauthenticated", "404 not_found",
		"409 refund_exceeds_payment",
		"402 refund_declined", "none")
	add(normalRun, "answer", "413 body_too_large", "415 unsupported_media_type")
	add(quickRun, "replay", "201", "402 payment_declined")
	for _, slip := range plan.Slips() {
		add(quickRun, "endpoint", string(slip))
	}
	add(quickRun, "event", "taken by the good endpoint", "taken by the endpoint that slips")
	add(normalRun, "event", "told again")
	add(quickRun, "outside refund", "while a client refunds", "of a known payment", "of the newest charge", "whole",
		"part", "twice", "on its way")
	add(quickRun, "others", "refund", "dispute", "inquiry", "came back of ours", "came back of theirs",
		"dispute under_review")
	add(normalRun, "others", "dispute needs_response", "dispute closed", "dispute won", "dispute lost")
	add(quickRun, "kept", "refund of theirs succeeded", "refund of theirs reversed", "refund of ours reversed")
	add(normalRun, "kept", "dispute won", "dispute lost")
	addEdges(add)
	addEnds(add)
	if stripe {
		addStripe(add)
	} else {
		addNative(add)
	}
	return slices.DeleteFunc(all, func(r required) bool { return r.since > of })
}

// mustHappenToParts is what a run with tenants on several servers is for. Three servers on one small machine leave less
// time for the rest, which the other runs prove.
func mustHappenToParts() (all []required) {
	for _, kind := range append(plan.OfParts(), plan.CrashPostgres, plan.KillAPI, plan.DropAcks) {
		all = append(all, required{"blow", string(kind), quickRun})
	}
	for _, done := range []string{world.SplitTenant, world.MovedTenant} {
		all = append(all, required{"tenant", done, quickRun})
	}
	return append(all, required{"answer", "201", quickRun}, required{"edge", "unknown → completed", quickRun},
		required{"edge", "unknown → failed_retryable by lookup", quickRun})
}

// addEnds lists what comes of the ends of keys, webhooks and days, and of lies about dead letters.
func addEnds(add func(since length, group string, names ...string)) {
	add(quickRun, "edge", "completed → expired by pruner", "failed_retryable → expired by pruner",
		"expired → in_progress by request")
	add(quickRun, "key used again", "expired")
	add(normalRun, "answer after expired", "201", "202")
	add(normalRun, "edge", "expired → none")
	add(normalRun, "key used again", "deleted")
	add(normalRun, "answer after deleted", "201")
	add(longRun, "answer after deleted", "202")
	add(quickRun, "webhook", "grown old", "pruned")
	add(quickRun, "answer", "429 rate_limited")
	add(normalRun, "lie refused", "stale-version", "not-executed")
	add(normalRun, "lie refused", "another-charge")
}

// addEdges lists the edges of the key's state machine, by who goes along them. Not among them is the owner that comes
// back to an unknown key before webhook, lookup and scan: a storm hardly ever leaves the time for that, and the crash
// matrix has this case.
func addEdges(add func(since length, group string, names ...string)) {
	add(quickRun, "edge", "none → in_progress", "in_progress → completed by owner",
		"in_progress → failed_retryable by owner",
		"in_progress → unknown by owner", "in_progress → unknown by sweeper", "unknown → completed by webhook",
		"unknown → completed by lookup",
		"unknown → failed_retryable by lookup", "failed_retryable → in_progress by request",
		"unknown → completed by operator")
	add(normalRun, "edge", "in_progress → unknown by request")
	add(quickRun, "dead letter", "psp_contradicts_request")
	add(normalRun, "dead letter", "lookups_exhausted")
	add(normalRun, "metric", "commit_ambiguous_total")
}

// addNative lists what only a native PSP does: it errs, and it executes what everybody has given up.
func addNative(add func(since length, group string, names ...string)) {
	add(normalRun, "entry", plan.Odd()...)
	add(normalRun, "kept", "refund of theirs, by webhook")
	add(longRun, "kept", "refund of theirs, never by webhook")
	add(normalRun, "statement", "breaks")
	add(longRun, "edge", "failed_retryable → completed")
	// At Stripe, an owner without an answer reads the intent at once, and six events for each payment wait in line: a
	// webhook hardly ever comes before the owner.
	add(normalRun, "edge", "in_progress → completed by webhook")
	add(longRun, "metric", "fenced_writes_total")
	add(normalRun, "dead letter", "contradicts_completed", "duplicate_movement")
	add(normalRun, "dead letter", "other_account", "unreadable_record")
}

// addStripe lists what only Stripe does: payments of two steps, customers and banks that take their time, answers that
// are saved, and other programs in the same accounts.
func addStripe(add func(since length, group string, names ...string)) {
	add(quickRun, "psp call", "create", "charge", "refund", "lookup", "cancel", "list")
	add(quickRun, "fault", "pm_create_500", "pm_create_lost", "pm_requires_action", "pm_requires_action_abandoned",
		"pm_bank_debit", "pm_bank_debit_fails")
	add(quickRun, "psp answer", "answered 429", "replayed 200", "replayed 500")
	add(quickRun, "client", "elsewhere")
	add(quickRun, "metric", "psp_foreign_total")
	add(quickRun, "webhook type", "customer.created")
	// A customer who has authenticated, a debit that has cleared, and one that has come back.
	add(quickRun, "entry", "pm_requires_action", "pm_bank_debit", "pm_bank_debit_fails")
	add(quickRun, "intent", "pm_requires_action_abandoned canceled")
	add(quickRun, "note", "lookup: the PSP has cancelled it: not executed", "owner: the PSP has cancelled it",
		"lookup: the PSP waits: requires_action", "owner: the PSP waits: requires_action",
		"owner: the PSP waits: processing", "owner: PSP answered 500", "owner: PSP answered 429")
	add(normalRun, "fault", "cancel_lost", "cancel_500")
	// A statement takes many requests there. In a storm, one of them fails nearly always, and then nothing is judged.
	// The one after the storm is read.
	add(longRun, "statement", "breaks")
	add(normalRun, "intent", "never stored", "never stored, and canceled")
	// At a native PSP, the statement of the day so far is nearly always before the scan. The crash matrix has the scan.
	add(longRun, "edge", "unknown → completed by scan")
	// An owner whose id of the object came when somebody else had the key.
	add(normalRun, "landed too late", "RememberObject")
}

// never lists what was required and did not happen.
func never(counts map[string]map[string]int, must []required) []program.Violation {
	var found []program.Violation
	for _, r := range must {
		if hits(counts[r.group], r.name) == 0 {
			found = append(found, program.Broken("sometimes", r.group+": "+r.name,
				"it never happened in this run, so nothing is proved about it"))
		}
	}
	return found
}

// hits counts a name with everything that makes it more precise: the labels of a metric, or who has gone along an edge.
func hits(group map[string]int, name string) int {
	sum := 0
	for counted, n := range group {
		if counted == name || strings.HasPrefix(counted, name+"{") || strings.HasPrefix(counted, name+" by ") {
			sum += n
		}
	}
	return sum
}

// counts writes a group in the order of the names.
func counts(group map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(group)) {
		words = append(words, fmt.Sprintf("%s:%s", name, strconv.Itoa(group[name])))
	}
	return strings.Join(words, " ")
}
