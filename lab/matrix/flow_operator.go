package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// operatorFlow is what the API does with an operator's decision about a key that the reconciler has given up.
func operatorFlow() flow {
	rows := append(decisionRows("executed", httpproxy.CutAfter), decisionRows("not_executed", httpproxy.CutBefore)...)
	rows = append(rows, transactionRows("retry", httpproxy.CutAfter)...)
	for i := range rows {
		rows[i].begin, rows[i].finish = (*stage).decideInBackground, finishDecision
	}
	rows = append(rows, planRows()...)
	for i := range rows {
		rows[i].noWebhooks = true
		// The PSP answers nobody's lookups but the operator's, and the ledger is not scanned meanwhile.
		env := map[string]string{"LOOKUP_BUDGET": "1", "SCAN_EVERY": "1h", "SCAN_OVERLAP": "2h"}
		maps.Copy(env, rows[i].env)
		rows[i].env = env
	}
	return flow{"operator", "operator", rows}
}

func decisionRows(action string, do httpproxy.Action) []row {
	rows := []row{
		{window: 21, step: action + ": key seen | ask the PSP",
			at: boundary{at: psp, name: world.Lookup, side: before}},
		{window: 21, step: action + ": asked | the PSP's answer",
			at: boundary{at: psp, name: world.Lookup, side: after}},
	}
	return append(decided(rows, action, do), transactionRows(action, do)...)
}

func transactionRows(action string, do httpproxy.Action) []row {
	const query = "ResolveDeadLetter"
	return decided([]row{
		{window: 22, step: action + ": dead letter resolved | move the key",
			at: boundary{at: database, name: query, side: after, open: true}},
		{window: 22, step: action + ": key moved | commit",
			at: boundary{at: database, name: query, side: before, commit: true}},
		{window: 23, step: action + ": committed | its acknowledgement",
			at: boundary{at: database, name: query, side: after, commit: true}},
	}, action, do)
}

// planRows are those of a decision that is a part of a plan.
func planRows() []row {
	rows := transactionRows("executed", httpproxy.CutAfter)
	for i := range rows {
		rows[i].step = "plan, " + rows[i].step
		rows[i].begin, rows[i].finish = (*stage).planInBackground, finishPlan
	}
	return rows
}

func decided(rows []row, action string, do httpproxy.Action) []row {
	replayed, env := "true", longWindow()
	if do == httpproxy.CutBefore {
		replayed, env = "false", nil // there is nothing that the scan could find, and the window has to be over
	}
	for i := range rows {
		rows[i].env = env
		rows[i].prepare = func(s *stage) error { return s.deadLettered(action, do) }
		rows[i].want = want{posts: [2]int{1, 1}, replayed: replayed, check: func(s *stage) error {
			return s.expect("the decision was carried out once, and is on record",
				`SELECT count(*) = 1 AND bool_and(action = $1) FROM operator_actions WHERE outcome = 'done'`, action)
		}}
	}
	return rows
}

// deadLettered leaves an unknown key to an operator.
func (s *stage) deadLettered(action string, do httpproxy.Action) error {
	if err := s.lostAndDue(do); err != nil {
		return err
	}
	if err := s.addBlindReconciler(); err != nil {
		return err
	}
	if err := s.startVictim(); err != nil {
		return err
	}
	if err := s.untilHolds("a dead letter", "SELECT count(*) = 1 FROM dead_letters"); err != nil {
		return err
	}
	err := s.w.DB.QueryRow(s.ctx, "SELECT id::text FROM dead_letters").Scan(&s.deadLetter)
	s.decision = action
	if action == "not_executed" {
		err = errors.Join(err, s.gracePeriodOver())
	}
	return errors.Join(err, s.healLookups())
}

// decide has an operator decide once.
func (s *stage) decide(p *world.Process) (world.Answer, error) {
	pspID := ""
	if s.vouched != "" {
		pspID = fmt.Sprintf(`,"pspId":%q`, s.vouched)
	}
	return s.client.Do(s.ctx, p.Operator, world.Request{
		Path: "/operator/dead-letters/" + s.deadLetter + "/resolve", As: s.w.Keys.Operator,
		Body: fmt.Sprintf(`{"action":%q,"reason":"the matrix says so","version":1%s}`, s.decision, pspID),
	})
}

func (s *stage) decideInBackground() error {
	s.begin(func() { _, _ = s.decide(s.api) }) // an operator who is not answered decides again
	return nil
}

// finishDecision is an operator who decides the same again, until the answer says that it is done, or was.
func finishDecision(s *stage) error {
	if err := s.until("the operator's decision", func() (bool, error) {
		a, err := s.decide(s.serving())
		if err != nil {
			return false, fmt.Errorf("the operator heard: %w", err)
		}
		if a.Status == http.StatusOK || a.Status == http.StatusConflict && s.isResolved() {
			return true, nil
		}
		return false, fmt.Errorf("the operator heard %d %s", a.Status, a.Body)
	}); err != nil {
		return err
	}
	if err := s.named(); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// named waits for the scan where an operator has vouched for a charge and the PSP could not be asked for its id. The
// hour until the next scan is not waited for: the last one is forgotten, and the next runs when the reconciler starts.
func (s *stage) named() error {
	const vouched = "SELECT bool_or(starts_with(psp_charge_id, 'operator:')) FROM payments"
	so, err := s.holds(vouched)
	if err != nil || !so {
		return err
	}
	s.reconciler.Stop()
	if _, err := s.w.DB.Exec(s.ctx, "DELETE FROM river_job WHERE kind = 'scan'"); err != nil {
		return err
	}
	if err := s.reconciler.Start(s.ctx); err != nil {
		return err
	}
	return s.untilHolds("the PSP's id of the charge, or a dead letter about its record", `
		WITH vouched AS MATERIALIZED (SELECT id FROM payments WHERE starts_with(psp_charge_id, 'operator:')),
		     told AS MATERIALIZED (SELECT subject FROM dead_letters WHERE kind = 'contradicts_completed')
		SELECT (SELECT count(*) FROM vouched) = 0
		    OR (SELECT count(*) FROM vouched JOIN told ON told.subject = vouched.id) > 0`)
}

func (s *stage) isResolved() bool {
	so, err := s.holds("SELECT status = 'resolved' FROM dead_letters WHERE id = $1::uuid", s.deadLetter)
	return so && err == nil
}

// plan has an operator plan a decision about all open dead letters, and returns how to carry it out.
func (s *stage) plan(p *world.Process) (run func() (world.Answer, error), err error) {
	a, err := s.client.Do(s.ctx, p.Operator, world.Request{Path: "/operator/dead-letters/plan",
		As: s.w.Keys.Operator, Body: fmt.Sprintf(`{"action":%q}`, s.decision)})
	if err != nil {
		return nil, fmt.Errorf("the operator's plan: %w", err)
	}
	var planned struct {
		Plan string `json:"plan"`
	}
	if err := json.Unmarshal(a.Body, &planned); err != nil || a.Status != http.StatusOK {
		return nil, fmt.Errorf("the operator's plan: %d %s", a.Status, a.Body)
	}
	return func() (world.Answer, error) {
		return s.client.Do(s.ctx, p.Operator, world.Request{Path: "/operator/dead-letters/run",
			As: s.w.Keys.Operator, Body: fmt.Sprintf(`{"plan":%q,"reason":"the matrix says so"}`, planned.Plan)})
	}, nil
}

func (s *stage) planInBackground() error {
	run, err := s.plan(s.api)
	if err == nil {
		s.begin(func() { _, _ = run() }) // an operator who is not answered makes another plan
	}
	return err
}

// finishPlan is an operator who plans the same again, until no dead letter is open.
func finishPlan(s *stage) error {
	if err := s.until("the operator's plan", func() (bool, error) {
		if s.isResolved() {
			return true, nil
		}
		run, err := s.plan(s.serving())
		if err != nil {
			return false, err
		}
		a, err := run()
		return false, errors.Join(err, fmt.Errorf("the operator heard %d %s", a.Status, a.Body))
	}); err != nil {
		return err
	}
	return s.askUntilFinal()
}
