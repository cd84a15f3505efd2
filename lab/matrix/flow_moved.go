package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
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

// afterwards is what others do at the PSP to a payment that has succeeded.
type afterwards struct {
	name  string                              // as the rows have it
	write string                              // the statement that stores it
	do    func(s *stage, charge string) error // has it happen
	shown string                              // what the books say of the payment, once
}

func afterwardsAll() []afterwards {
	return []afterwards{
		{"a refund elsewhere", "RecordRefundElsewhere", func(s *stage, charge string) error {
			return s.door("/_refunds", map[string]any{"chargeId": charge, "amountCents": 500}, nil)
		}, `SELECT count(*) = 1 AND bool_and(r.origin = 'provider' AND r.status = 'succeeded' AND
			p.refunded_minor = 500)
			FROM payments AS p JOIN refunds AS r ON r.tenant_id = p.tenant_id AND r.payment_id = p.id`},
		{"a dispute that is won", "RecordDispute", func(s *stage, charge string) error {
			var opened struct {
				ID string `json:"id"`
			}
			err := s.door("/_disputes", map[string]any{"chargeId": charge, "amountCents": 500}, &opened)
			for _, status := range []string{"under_review", "won"} {
				err = errors.Join(err, s.door("/_disputes/"+opened.ID, map[string]any{"status": status}, nil))
			}
			return err
		}, `SELECT count(*) = 1 AND bool_and(d.status = 'won' AND p.moved_outside_minor = 0)
			FROM payments AS p JOIN disputes AS d ON d.tenant_id = p.tenant_id AND d.payment_id = p.id`},
		{"a refund that comes back", "ReverseRefund", func(s *stage, _ string) error {
			heard, _ := s.firstFinal()
			back := s.refund(path.Base(heard.Header.Get("Location")), "refund-"+s.asked.key())
			a, err := s.ask(s.api, back)
			var made struct {
				ID string `json:"pspRefundId"`
			}
			if err := errors.Join(err, json.Unmarshal(a.Body, &made)); err != nil {
				return err
			}
			return s.door("/_refunds/"+made.ID+"/fail", map[string]any{}, nil)
		}, `SELECT count(*) = 1 AND bool_and(r.status = 'reversed' AND p.refunded_minor = 0)
			FROM payments AS p JOIN refunds AS r ON r.tenant_id = p.tenant_id AND r.payment_id = p.id`},
	}
}

// afterFlow is what the reconciler does with the events of it. They wait for it all together, and have no order.
func afterFlow() flow {
	var rows []row
	for _, a := range afterwardsAll() {
		prepare := func(s *stage) error {
			if err := s.askUntilFinal(); err != nil {
				return err
			}
			var charge string
			if err := s.w.DB.QueryRow(s.ctx, "SELECT psp_charge_id FROM payments").Scan(&charge); err != nil {
				return err
			}
			if err := a.do(s, charge); err != nil {
				return err
			}
			world.AwaitTold(s.ctx, s.w.PSP.Address)
			return s.addReconcilerWithoutScan()
		}
		finish := func(s *stage) error {
			return errors.Join(s.askUntilFinal(), s.untilHolds("the events' end",
				"SELECT count(*) > 1 AND bool_and(processed_at IS NOT NULL) FROM webhook_events"))
		}
		check := func(s *stage) error { return s.expect(a.name+" is on the payment, once", a.shown) }
		for _, r := range []row{
			{window: 8, step: a.name + ": judged | store it",
				at: boundary{at: database, name: a.write, side: before}},
			{window: 9, step: a.name + ": stored | mark two of the events",
				at: boundary{at: database, name: "SetResult", side: before, times: 2}},
		} {
			r.victim, r.env = world.Reconciler, map[string]string{"SCAN_EVERY": "1h", "SCAN_OVERLAP": "2h"}
			r.prepare, r.begin, r.finish = prepare, (*stage).startVictim, finish
			r.want = want{posts: [2]int{1, 1}, replayed: "false", check: allOfIt(check, noDeadLetter)}
			rows = append(rows, r)
		}
	}
	return flow{"after", "webhook: what others do after success", rows}
}

// addReconcilerWithoutScan adds one whose scan fails: it would bring to light what the events have not.
func (s *stage) addReconcilerWithoutScan() (err error) {
	if s.reconciler, err = s.w.AddReconciler("reconciler-1"); err == nil {
		s.reconciler.PSP.Choose(func(c httpproxy.Call) httpproxy.Action {
			if c.Name == world.List {
				return httpproxy.FailBefore
			}
			return httpproxy.Pass
		})
	}
	return err
}

// door has the mock PSP do what others do.
func (s *stage) door(door string, body map[string]any, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	a, err := s.client.Do(s.ctx, s.w.PSP.Address, world.Request{Method: http.MethodPost, Path: door, Body: string(raw)})
	switch {
	case err != nil:
		return err
	case a.Status != http.StatusOK:
		return fmt.Errorf("%s answered %d %s", door, a.Status, a.Body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(a.Body, into)
}
