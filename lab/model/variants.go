package main

import (
	"slices"

	"payonce/internal/cli"
)

// The claims, as claims.pml names them; circles is pan's own.
const (
	chargedOnce    = "I1_charged_once"
	nothingOpen    = "I2_nothing_left_open"
	completedFinal = "I3_completed_is_final"
	booksEqual     = "I4_books_equal_ledger"
	neverOverlap   = "I6_attempts_never_overlap"
	releasedProof  = "released_is_not_charged"
)

// variant is the model with some guards taken away.
type variant struct {
	name    string
	says    string   // what is different
	macros  []string // for spin
	breaks  string   // the claim that has to fail; empty when all have to hold
	circles bool     // asks whether a run can go on for ever, instead of the claims
}

// broken is the world in which the machine and the PSP don't keep their limits of time.
const broken = "BROKEN_LIMITS"

func variants() []variant {
	return []variant{
		{name: "design", says: "limits of time kept"},
		{name: "design-late", says: "sends and charges at any time", macros: []string{broken}},
		{name: "design-ends", says: "every run comes to rest", circles: true},
		{name: "no-scan-kept", says: "no scan, limits kept", macros: []string{"NO_SCAN"}},
		{name: "no-dedup-kept", says: "the PSP charges each send, limits kept", macros: []string{"NO_DEDUP"}},
		{name: "no-fence", says: "the owner writes without a guard", macros: []string{"NO_FENCE"},
			breaks: completedFinal},
		{name: "no-attempt", says: "its guard is the status alone", macros: []string{"NO_ATTEMPT"},
			breaks: releasedProof},
		{name: "no-window", says: "not found is believed at once", macros: []string{"NO_WINDOW"},
			breaks: releasedProof},
		{name: "no-window-no-dedup", says: "and the PSP charges each send",
			macros: []string{"NO_WINDOW", "NO_DEDUP", "ONLY_I1"}, breaks: chargedOnce},
		{name: "short-window", says: "the window without the lease", macros: []string{"SHORT_WINDOW"},
			breaks: releasedProof},
		{name: "judged-late", says: "the window held against the write, not the question",
			macros: []string{"JUDGED_WHEN_WRITTEN"}, breaks: releasedProof},
		{name: "no-pause-check", says: "a paused owner sends all the same", macros: []string{"NO_PAUSE_CHECK"},
			breaks: releasedProof},
		{name: "retake-expired", says: "a lease that is over is taken again", macros: []string{"RETAKE_EXPIRED"},
			breaks: neverOverlap},
		{name: "no-scan", says: "no scan, charges at any time", macros: []string{broken, "NO_SCAN"},
			breaks: booksEqual},
		{name: "no-dedup", says: "the PSP charges each send, at any time", macros: []string{broken, "NO_DEDUP"},
			breaks: chargedOnce},
		{name: "no-sweeper", says: "nobody looks for leases that are over", macros: []string{"NO_SWEEPER"},
			breaks: nothingOpen},
		{name: "no-poller", says: "nobody asks about unknown keys", macros: []string{"NO_POLLER"}, breaks: nothingOpen},
	}
}

// choose picks the variants named, in their own order; all when none is named.
func choose(all []variant, names []string) ([]variant, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []variant
	for _, name := range names {
		i := slices.IndexFunc(all, func(v variant) bool { return v.name == name })
		if i < 0 {
			return nil, cli.Usagef("variant %q is not known; see model --help", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
