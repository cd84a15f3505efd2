package payments

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// A decision is about what the dead letter was opened for. What has the key now may be another payment.
func TestDeadLetterIsAboutWhatItNames(t *testing.T) {
	t.Parallel()
	ref := idempotency.StoredRef("acme", payment.CreateOperation, "order-0000000001")
	at := func(generation int32, subject uuid.UUID) idempotency.KeyView {
		return idempotency.KeyView{Status: idempotency.UnknownStatus, Execution: idempotency.Execution{Ref: ref,
			Subject: subject, Generation: generation}}
	}
	of := func(subject uuid.UUID) *movement {
		return &movement{books: &Books{}, payment: &payment.Payment{ID: payment.ID(subject),
			Status: payment.Processing}}
	}
	nameless := aboutOwn(`{}`)
	nameless.Subject = nil
	for name, c := range map[string]struct {
		deadLetter deadletters.DeadLetter
		view       idempotency.KeyView
		m          *movement
		is         bool
	}{
		"it is":                         {aboutOwn(`{}`), at(1, ownSubject), of(ownSubject), true},
		"of another generation":         {aboutOwn(`{}`), at(2, otherSubject), of(otherSubject), false},
		"of another payment":            {aboutOwn(`{}`), at(1, otherSubject), of(otherSubject), false},
		"of a payment that is not read": {aboutOwn(`{}`), at(1, ownSubject), nil, false},
		"of a payment that is renewed":  {aboutOwn(`{}`), at(1, ownSubject), of(otherSubject), false},
		"it names no payment":           {nameless, at(1, otherSubject), of(otherSubject), false},
	} {
		g := gatheredAbout(c.deadLetter, c.view, c.m)
		if (g.movement != nil) != c.is || (g.seen.Status == idempotency.UnknownStatus) != c.is ||
			g.seen.Own.Ref != ref || !c.is && g.seen.Own.Generation != 1 ||
			!c.is && (g.seen.Own.Subject == ownSubject) != (c.deadLetter.Subject != nil) {
			t.Errorf("%s: %+v", name, g.seen)
		}
	}
}

// A dead letter about a job or a webhook has no key. A retry of it reads none.
func TestDecisionAboutNoKeyReadsNone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	deadLetter := deadletters.DeadLetter{ID: otherSubject, Kind: deadletters.JobDiscarded, Version: 1,
		Evidence: []byte(`{"jobId":7}`)}
	inquiry, err := s.service.Inquire(t.Context(), deadLetter,
		judge.OperatorDecision{Action: deadletters.Retry, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) error {
		step, err := s.decideTx(ctx, tx, inquiry, nil)
		if step.Again() == nil || step.Again().JobID != 7 {
			t.Errorf("the step is %+v", step)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What could not be read is an error, and no decision.
func TestDecisionThatFailsDecidesNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	deadLetter, retry := g.about(1), judge.OperatorDecision{Action: deadletters.Retry}
	deadLetter.Version, retry.Version = 1, 1
	ended, end := context.WithCancel(t.Context())
	end()
	if inquiry, err := s.service.Inquire(ended, deadLetter, retry); err == nil {
		t.Errorf("inquired %+v", inquiry)
	}
	inquiry, err := s.service.Inquire(t.Context(), deadLetter, retry)
	if err != nil {
		t.Fatal(err)
	}
	if _, lookups := psp.seen(); lookups != 0 {
		t.Errorf("a retry has asked the PSP %d times, and only the next lookup may", lookups)
	}
	before := s.everything()
	tx, err := s.pool.Begin(t.Context())
	if err == nil {
		err = tx.Rollback(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if step, err := s.decideTx(t.Context(), tx, inquiry, nil); err == nil {
		t.Errorf("the key is not read: %+v", step)
	}
	if s.everything() != before {
		t.Error("something has moved")
	}
}

var (
	ownSubject   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	otherSubject = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")
)

// aboutOwn is a dead letter about the first key of the tests here.
func aboutOwn(evidence string) deadletters.DeadLetter {
	subject := ownSubject
	return deadletters.DeadLetter{Subject: &subject, Evidence: []byte(evidence), About: &deadletters.About{
		Tenant: "acme", Operation: payment.CreateOperation, Key: "order-0000000001", Generation: 1}}
}
