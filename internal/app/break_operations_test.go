package app

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/test/pgtest"
)

// Only what is proven to be a further movement may be called one: an operator gives that back.
func TestEachBreakOfMoneyHasADeadLetterThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for kind, want := range map[judge.BreakKind]string{
		judge.BreakMissingHere: "unknown_movement", judge.BreakMissingThere: "missing_at_psp",
		judge.BreakDuplicate: "duplicate_movement", judge.BreakPSPID: "contradicts_completed",
		judge.BreakAmount: "", judge.BreakCurrency: "",
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			got, evidence := deadLetterOf(t, kind, "succeeded")
			if got != want {
				t.Fatalf("the dead letter is %q, want %q", got, want)
			}
			if kind == judge.BreakPSPID && (!strings.Contains(evidence, `"ch_theirs"`) ||
				!strings.Contains(evidence, `"ch_ours"`)) {
				t.Fatalf("the evidence lacks an id: %s", evidence)
			}
		})
	}
}

// What is processing is being resolved. Of money that moved for a refusal, nobody else would hear.
func TestMoneyThatMovedForARefusalHasADeadLetter(t *testing.T) {
	t.Parallel()
	for ours, want := range map[string]string{"declined": "contradicts_completed", "failed": "contradicts_completed",
		"processing": "", "succeeded": ""} {
		t.Run(ours, func(t *testing.T) {
			t.Parallel()
			if got, _ := deadLetterOf(t, judge.BreakStatus, ours); got != want {
				t.Fatalf("the dead letter is %q, want %q", got, want)
			}
		})
	}
}

// deadLetterOf has a reconciler judge a break, and reads the dead letter that this opens, if it does.
func deadLetterOf(t *testing.T, kind judge.BreakKind, ours string) (deadLetter, evidence string) {
	t.Helper()
	env := map[string]string{"DATABASE_URL": pgtest.NewURL(t), "PSP_SECRET": strings.Repeat("x", 24)}
	c, err := config.LoadReconciler(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReconciler(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	subject, err := NewID()
	if err != nil {
		t.Fatal(err)
	}
	side := func(id string) *judge.Side {
		return &judge.Side{AmountMinor: 5, Currency: "USD", PSPID: id, Status: ours}
	}
	err = r.db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := r.StatementConfig().Payments.BreakTx(ctx, tx, judge.Break{
			Account: "acme", Day: time.Now(), Object: gateway.ChargeObject, Kind: kind, PSPID: "ch_theirs",
			Subject:   &subject,
			Reference: "pay_x", Theirs: side(""), Ours: side("ch_ours"),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = r.db.Pool().QueryRow(t.Context(),
		"SELECT coalesce(min(kind), ''), coalesce(min(evidence::text), '') FROM dead_letters").Scan(
		&deadLetter, &evidence)
	if err != nil {
		t.Fatal(err)
	}
	return deadLetter, evidence
}
