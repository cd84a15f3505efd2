package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// movedScenes are about money that has moved otherwise than our rows say.
func movedScenes() []row {
	return []row{
		{
			window: 3, step: "charged when long given back: the statement tells", noWebhooks: true,
			env:    map[string]string{"SCAN_EVERY": "1h", "SCAN_OVERLAP": "2h"},
			script: (*stage).chargeInTheStatement, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 3, step: "declined, and a dead letter says that money moved",
			// the answer is held for a while
			env:    map[string]string{"PSP_TIMEOUT": "4s", "LEASE": "12s"},
			script: (*stage).declineBesideMovedMoney, want: want{posts: [2]int{1, 1}, check: (*stage).undecided},
		},
		{
			window: 4, step: "charged, and something in between answers 400", noWebhooks: true,
			script: (*stage).refusedInBetween, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 4, step: "charged, and nobody can read the PSP's record", noWebhooks: true,
			env:    map[string]string{"LOOKUP_BUDGET": "3"},
			script: (*stage).unreadable, want: want{posts: [2]int{1, 1}, check: (*stage).undecided},
		},
		{
			window: 17, step: "the scan comes to a record that nobody can read", noWebhooks: true,
			env:    map[string]string{"LOOKUP_BUDGET": "3"},
			script: (*stage).behindTheUnreadable, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 18, step: "an operator lets another key pass: the scan reports it", noWebhooks: true,
			script: (*stage).vouchedKey, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 22, step: "not executed, says an operator, and the PSP knows better", noWebhooks: true,
			env:    map[string]string{"LOOKUP_BUDGET": "1", "SCAN_EVERY": "1h", "SCAN_OVERLAP": "2h"},
			script: (*stage).deniedMoney, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
	}
}

// undecided expects that nobody but an operator will say what became of the key.
func (s *stage) undecided() error {
	return s.expect("the key is unknown, and an operator has it", `SELECT k.status = 'unknown' AND EXISTS (
		SELECT 1 FROM dead_letters AS d WHERE d.key = $1 AND d.status = 'open') FROM idempotency_keys AS k WHERE k.key = $1`, s.asked.key())
}

// chargeInTheStatement: of a charge that lands when its key is long given back, the statement of the day is the first
// to tell.
func (s *stage) chargeInTheStatement() error {
	if err := s.landTooLate(); err != nil {
		return err
	}
	if _, err := s.w.Statement(s.ctx, time.Now().UTC()); err != nil {
		return err
	}
	if err := s.expect("the statement has completed the key",
		"SELECT status = 'completed' FROM idempotency_keys WHERE key = $1", s.asked.key()); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// declineBesideMovedMoney: the PSP declines. Before the owner hears of it, a webhook reports another payment's charge
// under the reference of this one.
func (s *stage) declineBesideMovedMoney() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	// The webhook of the decline would be faster than the owner.
	s.w.Front.Choose(func(c httpproxy.Call) httpproxy.Action {
		if bytes.Contains(c.Body, []byte(`"declined"`)) {
			return httpproxy.FailBefore
		}
		return httpproxy.Pass
	})
	s.asked.request = s.w.Keys.Payment(s.asked.key(), "pm_declined")
	answered := s.api.PSP.On(world.Charge, httpproxy.HoldAfter)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := answered.Reached(s.ctx); err != nil {
		return err
	}
	other := s.payment("other-" + s.asked.key())
	other.request = s.w.Keys.Payment(other.key(), "pm_wrong_reference")
	if _, err := s.ask(s.api, other); err != nil {
		return err
	}
	err := s.untilHolds("a dead letter that says that money moved",
		"SELECT count(*) = 1 FROM dead_letters WHERE key = $1 AND evidence #>> '{record,status}' = 'succeeded'", s.asked.key())
	answered.Release()
	err = errors.Join(err, s.awaitBegun())
	s.w.Front.Choose(nil)
	return err
}

// refusedInBetween: an answer of somebody else's is not the PSP's decline.
func (s *stage) refusedInBetween() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	if err := s.lost(httpproxy.RefuseAfter); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// unreadable: a record that nobody can read is no proof that there is none.
func (s *stage) unreadable() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	s.asked.request = s.w.Keys.Payment(s.asked.key(), "pm_duplicate_member")
	if _, err := s.ask(s.api, s.asked); err != nil {
		return err
	}
	return s.untilHolds("what the lookups come to", `SELECT k.status = 'failed_retryable' OR EXISTS (
		SELECT 1 FROM dead_letters AS d WHERE d.key = $1 AND d.status = 'open') FROM idempotency_keys AS k WHERE k.key = $1`, s.asked.key())
}

// behindTheUnreadable: what the PSP lists behind a record that nobody can read is found all the same.
func (s *stage) behindTheUnreadable() error {
	first := s.payment("first-" + s.asked.key())
	first.request = s.w.Keys.Payment(first.key(), "pm_duplicate_member")
	if _, err := s.ask(s.api, first); err != nil {
		return err
	}
	if err := errors.Join(s.lost(httpproxy.CutAfter), s.addBlindReconciler()); err != nil {
		return err
	}
	return errors.Join(s.startVictim(), s.askUntilFinal())
}

// vouchedKey: an operator calls a charge under another key executed.
func (s *stage) vouchedKey() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	s.asked.request = s.w.Keys.Payment(s.asked.key(), "pm_wrong_key")
	if _, err := s.ask(s.api, s.asked); err != nil {
		return err
	}
	if err := s.untilHolds("a dead letter", "SELECT count(*) = 1 FROM dead_letters"); err != nil {
		return err
	}
	if err := s.w.DB.QueryRow(s.ctx,
		"SELECT id::text, evidence #>> '{answer,id}' FROM dead_letters").Scan(&s.deadLetter, &s.vouched); err != nil {
		return err
	}
	s.decision = "executed"
	if err := finishDecision(s); err != nil {
		return err
	}
	return s.untilHolds("a dead letter of the scan",
		"SELECT count(*) = 1 FROM dead_letters WHERE kind = 'contradicts_completed' AND status = 'open'")
}

// deniedMoney: an operator who says that nothing was executed is held against the PSP's word.
func (s *stage) deniedMoney() error {
	if err := s.deadLettered("not_executed", httpproxy.CutAfter); err != nil {
		return err
	}
	a, err := s.decide(s.api)
	if err != nil {
		return err
	}
	if a.Status != http.StatusConflict {
		return &caseError{fmt.Sprintf("a decision against the PSP's word is refused: it was answered %d %s", a.Status,
			a.Body)}
	}
	s.decision = "retry"
	return finishDecision(s)
}
