package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"payonce/lab/world"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// lifeScenes are about keys that were used before, and about a PSP that has forgotten them.
func lifeScenes() []row {
	const pruned = "300ms"
	forgotten := map[string]string{"PRUNE_EVERY": pruned, "KEY_AUDIT": "0s"}
	again := want{posts: [2]int{1, 1}, replayed: "false"}
	found := want{posts: [2]int{1, 1}, replayed: "true"}
	return []row{
		{
			window: 4, step: "a dead owner's completion lands in the next generation",
			env:    map[string]string{"PRUNE_EVERY": pruned},
			script: (*stage).completionOfTheGenerationBefore, want: again,
		},
		{window: 1, step: "a deleted key is used again", env: forgotten, script: (*stage).deletedKeyAgain, want: again},
		{window: 3, step: "a deleted key is used again, and its answer is lost", env: forgotten, noWebhooks: true,
			script: (*stage).deletedKeyLost, want: found},
		{window: 21, step: "executed, says a dead letter about the payment before", env: forgotten,
			script: (*stage).deadLetterAboutThePaymentBefore, want: again},
		{window: 3, step: "charged, answer lost, and the PSP forgets the key", noWebhooks: true,
			script: (*stage).chargedAndForgotten, want: found},
	}
}

// askBefore sends what is no part of the history: the life of the key before the one that the case is about.
func (s *stage) askBefore() {
	request := s.asked.request
	s.begin(func() { _, _ = s.client.Do(s.ctx, s.api.Address, request) })
}

// askForMore has the client want something else under its key from here on.
func (s *stage) askForMore() {
	s.asked.request.Body = strings.Replace(s.asked.request.Body, "12000", "12001", 1)
}

func (s *stage) retentionOver() error {
	return s.behindTheGuards("UPDATE idempotency_keys SET expires_at = clock_timestamp() WHERE key = $1", s.asked.key())
}

func (s *stage) deleted() error {
	return s.untilHolds("the key's deletion", "SELECT NOT EXISTS (SELECT FROM idempotency_keys WHERE key = $1)",
		s.asked.key())
}

// completionOfTheGenerationBefore: an owner dies whose completion is on its way. Others complete the key, it expires,
// and is used again: in progress, in its first attempt, as it was when the packet was sent.
func (s *stage) completionOfTheGenerationBefore() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	held := s.api.DB.On("CompleteKeys", pgproxy.HoldBefore)
	s.askBefore()
	if err := held.Reached(s.ctx); err != nil {
		return err
	}
	if err := s.dies(); err != nil {
		return err
	}
	err := s.untilHolds("that the key is completed, and all is told", `SELECT status = 'completed' AND
		(SELECT count(*) = 1 AND bool_and(processed_at IS NOT NULL) FROM webhook_events) FROM idempotency_keys WHERE key = $1`, s.asked.key())
	if err != nil {
		return err
	}
	if err := s.retentionOver(); err != nil {
		return err
	}
	if err := s.untilHolds("the key's expiry", "SELECT status = 'expired' FROM idempotency_keys WHERE key = $1",
		s.asked.key()); err != nil {
		return err
	}
	s.askForMore()
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	held.Release()
	if _, err := held.Landed(s.ctx); err != nil {
		return err
	}
	err = s.expect("the next generation is still in progress",
		"SELECT generation = 2 AND attempt = 1 AND status = 'in_progress' FROM idempotency_keys WHERE key = $1", s.asked.key())
	sent.Release()
	return errors.Join(err, s.awaitBegun(), s.askUntilFinal())
}

// paidAndDeleted leaves a payment whose key was deleted.
func (s *stage) paidAndDeleted() error {
	if err := errors.Join(s.startReconciler(), s.overdue(), s.deleted()); err != nil {
		return err
	}
	s.askForMore()
	return nil
}

func (s *stage) deletedKeyAgain() error {
	if err := s.paidAndDeleted(); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// deletedKeyLost: a lookup must find the charge of this payment, and not that of the payment before.
func (s *stage) deletedKeyLost() error {
	if err := s.paidAndDeleted(); err != nil {
		return err
	}
	return errors.Join(s.lost(httpproxy.CutAfter), s.askUntilFinal())
}

// deadLetterAboutThePaymentBefore: a charge lands when its key was given back and deleted, so that an operator has the
// case. Until it is closed, nothing is executed under the key.
func (s *stage) deadLetterAboutThePaymentBefore() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	s.askBefore()
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	if err := errors.Join(s.dies(), s.released(), s.retentionOver(), s.deleted()); err != nil {
		return err
	}
	sent.Release()
	if err := sent.Landed(s.ctx); err != nil {
		return err
	}
	if err := s.untilHolds("a dead letter about the late charge",
		"SELECT count(*) = 1 FROM dead_letters WHERE status = 'open'"); err != nil {
		return err
	}
	held, err := s.ask(s.api, s.asked)
	if err != nil {
		return err
	}
	if held.Status != http.StatusConflict {
		return &caseError{fmt.Sprintf("a key under which money has moved is held: it was answered %d %s", held.Status,
			held.Body)}
	}
	if err := s.refusedAsExecuted(); err != nil {
		return err
	}
	s.decision = "dismiss" // and the key is free
	if _, err := s.decide(s.api); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// refusedAsExecuted calls the only dead letter executed, and expects a refusal.
func (s *stage) refusedAsExecuted() error {
	s.decision = "executed"
	if err := s.w.DB.QueryRow(s.ctx, "SELECT id::text FROM dead_letters").Scan(&s.deadLetter); err != nil {
		return err
	}
	a, err := s.decide(s.api)
	if err != nil {
		return err
	}
	if a.Status != http.StatusConflict {
		return &caseError{fmt.Sprintf("a decision about the payment before is refused: it was answered %d %s", a.Status,
			a.Body)}
	}
	return s.expect("nothing is executed under the key",
		"SELECT count(*) = 0 FROM idempotency_keys WHERE key = $1 AND status IN ('in_progress', 'unknown')", s.asked.key())
}

// chargedAndForgotten: the PSP's records are what is found, and nothing is sent again under a key that it would take
// for a new one.
func (s *stage) chargedAndForgotten() error {
	if err := s.lost(httpproxy.CutAfter); err != nil {
		return err
	}
	return errors.Join(s.forgets(), s.startReconciler(), s.askUntilFinal())
}
