package idempotency

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// closeTx resolves a dead letter about the test's key as an operator does.
func (b *bench) closeTx(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	if err := postgres.PipelineTx(ctx, tx, b.keys.LockKey(b.ref, 1)); err != nil {
		return err
	}
	_, err := deadletters.ResolveTx(ctx, tx, deadletters.Decision{DeadLetter: id, Version: 1,
		Action: deadletters.Dismiss, Actor: "ops", Reason: "test"})
	return err
}

func (b *bench) closeDeadLetter(id uuid.UUID) {
	b.t.Helper()
	if err := b.db.Transact(b.t.Context(), func(ctx context.Context,
		tx pgx.Tx) error {
		return b.closeTx(ctx, tx, id)
	}); err != nil {
		b.t.Fatal(err)
	}
}

// closeDeadLetters resolves all of them.
func (b *bench) closeDeadLetters() {
	b.t.Helper()
	page, err := deadletters.List(b.t.Context(), b.db,
		deadletters.Filter{Status: deadletters.OpenStatus, Limit: deadletters.MaxPage})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, l := range page.DeadLetters {
		b.closeDeadLetter(l.ID)
	}
}

// One dead letter is closed while another is opened. The second transaction sees what the first has written.
func TestDeadLetterThatIsOpenedBesideAClosingIsNotLeftOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()

	b.putInto(UnknownStatus)
	first, second := b.deadLetterSaying(moved), b.aDeadLetter(1)
	tx := b.open(ctx)
	if err := b.closeTx(ctx, tx, first.ID); err != nil {
		t.Fatal(err)
	}
	b.commits(ctx, tx, b.inBackground(ctx, b.opening(second)...))
	b.wantHold("release")

	tx = b.open(ctx, b.opening(b.aDeadLetter(1))...)
	closed := make(chan error, 1)
	go func() {
		closed <- b.db.Transact(ctx, func(ctx context.Context,
			tx pgx.Tx) error {
			return b.closeTx(ctx, tx, second.ID)
		})
	}()
	pgtest.AwaitLock(b.t, b.pool)
	b.commits(ctx, tx, closed)
	b.wantHold("release")
	b.closeDeadLetters()
	b.wantHold("none")
}

func TestTwoDeadLettersThatAreOpenedAtOnceBothHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	weak, strong := b.aDeadLetter(1), b.aDeadLetter(1)
	strong.Evidence = []byte(moved)
	for _, pair := range [][2]deadletters.DeadLetter{{weak, strong}, {strong, weak}} {
		b.again().putInto(UnknownStatus)
		for i := range pair {
			pair[i].ID = uuid.New()
			pair[i].Finding = pair[i].ID.String()
		}
		tx := b.open(ctx, b.opening(pair[0])...)
		b.commits(ctx, tx, b.inBackground(ctx, b.opening(pair[1])...))
		b.wantHold("decline")
		b.closeDeadLetter(pair[0].ID)
		b.closeDeadLetter(pair[1].ID)
		b.wantHold("none")
	}
}
