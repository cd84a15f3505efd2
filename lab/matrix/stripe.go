package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/tenants"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// What the flows at Stripe have in common.

func (s *stage) atStripe() bool { return s.row.psp == tenants.Stripe }

// atStripe has the tenants of all rows be at Stripe.
func atStripe(rows []row) []row {
	for i := range rows {
		rows[i].psp = tenants.Stripe
	}
	return rows
}

// allOfIt joins checks.
func allOfIt(checks ...func(*stage) error) func(*stage) error {
	return func(s *stage) error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check(s))
		}
		return errors.Join(errs...)
	}
}

func noDeadLetter(s *stage) error {
	return s.expect("no operator has to look at it", "SELECT count(*) = 0 FROM dead_letters")
}

// intents counts those of the case by how they stand at Stripe.
func (s *stage) intents() (map[string]int, error) {
	all, err := invariants.Intents(s.ctx, s.evidence(nil))
	count := map[string]int{}
	for _, i := range all {
		if i.Metadata["idempotency_key"] == s.asked.key() {
			count[i.Status]++
		}
	}
	return count, err
}

// cancelledAsSaid: one intent is executed. Each time that an owner or a lookup has given the key back as cancelled, an
// intent was cancelled. So nobody can execute that attempt any more. An owner may give its key back for another reason
// too, for example because the creation failed. Then there is no intent that could be executed.
func (s *stage) cancelledAsSaid() error {
	count, err := s.intents()
	if err != nil {
		return err
	}
	given, err := s.count(`SELECT count(*) FROM idempotency_key_events WHERE key = $1 AND from_status IN ('unknown', 'in_progress')
		AND to_status = 'failed_retryable' AND reason LIKE 'the PSP has cancelled it%'`, s.asked.key())
	switch {
	case err != nil:
		return err
	case count["succeeded"] != 1:
		return &caseError{fmt.Sprintf("one intent is executed: they are %v", count)}
	case count["canceled"] < given:
		return &caseError{fmt.Sprintf("an intent is cancelled each of the %d times that the key was given back as that: they are %v",
			given, count)}
	}
	return nil
}

// nothingLeftOpen: each intent is executed or cancelled.
func (s *stage) nothingLeftOpen() error {
	count, err := s.intents()
	for status := range count {
		if err == nil && status != "succeeded" && status != "canceled" {
			err = &caseError{fmt.Sprintf("each intent is executed or cancelled: they are %v", count)}
		}
	}
	return err
}

// longestStripeKey is how many characters an Idempotency-Key has there.
const longestStripeKey = 255

// executing ends the key of a request that can move money.
var executing = regexp.MustCompile(`\.(confirm\.[0-9]+|refund(\.[0-9]+)?)$`)

// checkExecutions is checkPosts at Stripe: it counts the requests that can move money, under whatever key of the case.
// Each attempt has a key of its own there.
func (s *stage) checkExecutions(w want) error {
	a, err := s.client.Do(s.ctx, s.w.PSP.Address,
		world.Request{Method: http.MethodGet, Path: "/_requests?account=" + s.w.Account("acme")})
	if err != nil {
		return err
	}
	var calls struct {
		Requests []struct{ Method, Path, Key string }
	}
	if err := json.Unmarshal(a.Body, &calls, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("read the PSP's calls: %w", err)
	}
	posts := 0
	for _, c := range calls.Requests {
		step := executing.FindString(c.Key)
		if c.Method == http.MethodPost && step != "" &&
			c.Key == gateway.FitKey(s.asked.key(), longestStripeKey-len(step))+step {
			posts++
		}
	}
	if posts < w.posts[0] || posts > w.posts[1] {
		return &caseError{fmt.Sprintf("the PSP was asked to move money %d to %d times under %s: it was %d times",
			w.posts[0], w.posts[1], s.asked.key(), posts)}
	}
	return nil
}

// madeAndOver leaves a key without an owner, whose lease is over. Its intent is made, and the id of it is not stored.
func (s *stage) madeAndOver() error {
	held := s.api.DB.On("RememberObject", pgproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := held.Reached(s.ctx); err != nil {
		return err
	}
	s.api.Kill()
	s.api.DB.Down()
	if err := errors.Join(s.api.DB.Restore(), s.awaitBegun(), s.startAgain(s.api)); err != nil {
		return err
	}
	return s.untilHolds("the end of the lease",
		"SELECT locked_until <= clock_timestamp() FROM idempotency_keys WHERE key = $1 AND status = 'in_progress'",
		s.asked.key())
}

// forgets has the PSP forget all keys, as after a day.
func (s *stage) forgets() error {
	a, err := s.client.Do(s.ctx, s.w.PSP.Address, world.Request{Method: http.MethodDelete, Path: "/_keys"})
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("the PSP did not forget: %d %s", a.Status, a.Body)
	}
	return err
}

// confirmLost has the confirmation of the next charge get no answer.
func (s *stage) confirmLost(do httpproxy.Action) error {
	s.api.PSP.On(world.Charge, do)
	return s.startReconciler()
}
