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
	successCharged = "I3_success_was_charged"
	releasedProof  = "released_is_not_charged"
	canExecute     = "attempt_can_execute"
	answerIsOwn    = "answer_is_own"
	withinPayment  = "refunds_within_payment"
)

// The models.
const (
	keyModel         = "key.pml"         // one generation, at a PSP that executes what it is sent
	objectModel      = "object.pml"      // one generation, at a PSP that makes an object first, and executes it later
	generationsModel = "generations.pml" // the key expires, is deleted, and is used again
	refundsModel     = "refunds.pml"     // two refunds of one payment
)

// variant is a model with some guards taken away.
type variant struct {
	name    string
	model   string
	says    string   // what is different
	macros  []string // for spin
	breaks  string   // the claim that has to fail; empty when all have to hold
	circles bool     // asks whether a run can go on for ever, instead of the claims
	few     bool     // has so few states that to optimize pan would take longer than the search
}

// broken is the world in which the machine and the PSP don't keep their limits of time.
const broken = "BROKEN_LIMITS"

func variants() []variant {
	return slices.Concat(of(keyModel, keyVariants()), of(objectModel, objectVariants()),
		of(generationsModel, generationVariants()), of(refundsModel, refundVariants()))
}

func of(model string, vs []variant) []variant {
	for i := range vs {
		vs[i].model = model
	}
	return vs
}

// keyVariants are those of a PSP that executes what it is sent.
func keyVariants() []variant {
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

// objectVariants are those of a PSP that makes an object first. Without one of the first four guards, the customer is
// charged twice: ONLY_I1 leaves out the claims that would fail earlier. Without the last one, a payment that was
// released can never be made.
func objectVariants() []variant {
	return []variant{
		{name: "object-design", says: "make an object, remember it, execute it"},
		{name: "object-resolvers", says: "two resolvers, which get every answer",
			macros: []string{"TWO_RESOLVERS"}},
		{name: "object-ends", says: "every run comes to rest", macros: []string{"FORGETS=0"}, circles: true},
		{name: "not-found-is-proof", says: "a search that finds nothing is believed",
			macros: []string{"NOT_FOUND_IS_PROOF", "ONLY_I1"}, breaks: chargedOnce},
		{name: "no-cancel", says: "an object that is not executed is not cancelled",
			macros: []string{"NO_CANCEL", "ONLY_I1"}, breaks: chargedOnce},
		{name: "not-remembered", says: "it is executed before its id is stored",
			macros: []string{"NOT_REMEMBERED", "ONLY_I1"}, breaks: chargedOnce},
		{name: "remember-not-fenced", says: "its id is stored although the key is unknown",
			macros: []string{"REMEMBER_NOT_FENCED", "ONLY_I1"}, breaks: chargedOnce},
		{name: "same-object-again", says: "the next attempt has the same create key",
			macros: []string{"SAME_OBJECT_AGAIN"}, breaks: canExecute},
	}
}

// generationVariants are those of a key that is used again after its end. By expiring early, the design loses nothing
// that is claimed here: each generation has a key of its own at the PSP. What the retention is for is the client, who
// is answered from the row for as long as it lasts.
func generationVariants() []variant {
	return []variant{
		{name: "generations", says: "expired and renewed, deleted and used again"},
		{name: "generations-late", says: "sends and charges at any time", macros: []string{broken}},
		{name: "early-end", says: "expired and deleted within the PSP's memory", macros: []string{"EARLY_END"}},
		{name: "early-end-no-tombstone", says: "and begins at generation 1 again",
			macros: []string{"EARLY_END", "NO_TOMBSTONE"}, breaks: answerIsOwn},
		{name: "no-tombstone", says: "a deleted key begins at generation 1 again",
			macros: []string{"NO_TOMBSTONE", "ONLY_I1"}, breaks: chargedOnce},
		{name: "same-psp-key", says: "the PSP's key is the same in each generation",
			macros: []string{"SAME_PSP_KEY"}, breaks: answerIsOwn},
		{name: "retake-forgotten", says: "a released key is taken after the PSP's memory",
			macros: []string{broken, "RETAKE_FORGOTTEN"}, breaks: chargedOnce},
		{name: "lookup-forgotten", says: "not found is believed after the PSP's memory",
			macros: []string{"LOOKUP_FORGOTTEN"}, breaks: releasedProof},
		{name: "any-generation", says: "evidence counts for whatever the key is by now",
			macros: []string{"ANY_GENERATION"}, breaks: successCharged},
		{name: "fence-attempt-only", says: "the fence is the attempt, without the generation",
			macros: []string{"FENCE_WITHOUT_GENERATION"}, breaks: successCharged},
	}
}

// refundVariants are those of two refunds at once, of a half or of the whole payment each.
func refundVariants() []variant {
	return []variant{
		{name: "refunds", says: "two refunds of one payment, at once"},
		{name: "refunds-late", says: "sends and refunds at any time", macros: []string{broken}},
		{name: "refund-no-lock", says: "what is left is read before the payment is locked",
			macros: []string{"NO_LOCK"}, breaks: withinPayment},
		{name: "refund-lost-gives-back", says: "an unknown refund gives its share back",
			macros: []string{"LOST_GIVES_BACK"}, breaks: withinPayment},
		{name: "refund-share-not-asked", says: "late evidence completes it without its share",
			macros: []string{broken, "SHARE_NOT_ASKED"}, breaks: withinPayment},
		{name: "refund-no-key", says: "the PSP is sent no key", macros: []string{broken, "NO_DEDUP"},
			breaks: chargedOnce},
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
