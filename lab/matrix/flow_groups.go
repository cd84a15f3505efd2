package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/jackc/pgx/v5"

	"payonce/lab/world"
	"payonce/test/pgproxy"
)

// groupScenes are about payments that share a transaction. The API has one slot for such transactions, and a
// reservation that is held keeps it for a moment: the requests that arrive meanwhile form a group.
func groupScenes() []row {
	one := map[string]string{"DB_COMMIT_SLOTS": "1"}
	return []row{
		{
			window: 1, step: "a replay, new keys and one key twice arrive together", env: one,
			script: (*stage).mixedGroup, want: want{posts: [2]int{1, 1}},
		},
		{
			window: 1, step: "a key of a group is locked: the others are tried alone", env: one,
			script: (*stage).groupWithALock, want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
	}
}

// together sends requests while the only slot is taken.
func (s *stage) together(all ...movement) ([]world.Answer, error) {
	held := s.api.DB.On("ReserveKeys", pgproxy.HoldBefore)
	first := s.payment("first-" + s.asked.key())
	s.begin(func() { _, _ = s.ask(s.api, first) })
	if err := held.Reached(s.ctx); err != nil {
		return nil, err
	}
	answers, errs := make([]world.Answer, len(all)), make([]error, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		asked.Go(func() { answers[i], errs[i] = s.ask(s.api, m) })
	}
	asked.Wait()
	held.Release()
	return answers, errors.Join(append(errs, s.awaitBegun(), s.askFor(first))...)
}

// mixedGroup: each member of a group is told of its own key, and of one key there is one member. The invariants compare
// what each client has heard.
func (s *stage) mixedGroup() error {
	replayed := s.payment("replayed-" + s.asked.key())
	if err := errors.Join(s.startReconciler(), s.askFor(replayed)); err != nil {
		return err
	}
	others := []movement{s.payment("a-" + s.asked.key()), s.payment("z-" + s.asked.key())}
	answers, err := s.together(others[0], s.asked, replayed, s.asked, others[1])
	if err != nil {
		return err
	}
	if a := answers[2]; a.Status != http.StatusCreated || a.Header.Get("Idempotent-Replayed") != "true" {
		return &caseError{fmt.Sprintf("the replay in a group is answered from what is stored: it was %d %s", a.Status,
			a.Body)}
	}
	return errors.Join(s.askUntilFinal(), s.askFor(others[0]), s.askFor(others[1]), s.askFor(replayed))
}

// groupWithALock: somebody else has written a key and not committed. The group that waits for it is rolled back, and
// its other members must not notice.
func (s *stage) groupWithALock() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	locked := s.payment("locked-" + s.asked.key())
	tx, err := s.w.DB.Begin(s.ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(s.ctx))
	if err := s.writeKey(tx, locked.key()); err != nil {
		return err
	}
	other := s.payment("z-" + s.asked.key())
	answers, err := s.together(s.asked, locked, other)
	if err != nil {
		return err
	}
	if err := tx.Rollback(s.ctx); err != nil {
		return err
	}
	for _, a := range []world.Answer{answers[0], answers[2]} {
		if a.Status != http.StatusCreated {
			return &caseError{fmt.Sprintf("a payment beside the locked one is answered as if it were alone: it was %d %s", a.Status, a.Body)}
		}
	}
	return errors.Join(s.askUntilFinal(), s.askFor(other), s.askFor(locked))
}

// writeKey writes a key behind the guards, in a transaction that never commits.
func (s *stage) writeKey(tx pgx.Tx, key string) error {
	if _, err := tx.Exec(s.ctx, "SET LOCAL session_replication_role = replica"); err != nil {
		return err
	}
	_, err := tx.Exec(s.ctx, `INSERT INTO idempotency_keys
		(tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, locked_until, expires_at)
		VALUES ('acme', 'POST /payments', $1, 'in_progress', sha256('x'), 1, 1, gen_random_uuid(), gen_random_uuid(), now(), now(), now(), now())`, key)
	return err
}
