package payments

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

const recordAsEvidence = `{"object":"charge","id":"psp_1","account":"acme","idempotencyKey":"order-0000000001",` +
	`"reference":"","amountCents":12000,"currency":"USD","status":"succeeded",` +
	`"createdAt":"2026-11-20T09:05:00.000000Z"}`

// aboutOwn is a dead letter about the key that all evidence here is about.
func aboutOwn(evidence string) deadletters.DeadLetter {
	subject := ownSubject
	return deadletters.DeadLetter{Subject: &subject, Evidence: []byte(evidence), About: &deadletters.About{
		Tenant: "acme", Operation: payment.CreateOperation, Key: "order-0000000001", Generation: 1}}
}

// An operator who says that a payment was executed need not type the PSP's id, if the evidence has it. An id of another
// payment, or of a decline, would be stored as this payment's.
func TestIDOfTheMovementIsFoundInItsEvidence(t *testing.T) {
	t.Parallel()
	own, other := payment.ID(ownSubject).String(), payment.ID(otherSubject).String()
	refund := aboutOwn(`{"id":"psp_1","reference":"` + payment.RefundID(ownSubject).String() + `"}`)
	refund.About.Operation = payment.RefundOperation
	nameless := aboutOwn(`{"id":"psp_1","reference":"` + other + `"}`)
	nameless.Subject = nil
	nobodys := aboutOwn(recordAsEvidence)
	nobodys.About = nil
	for name, c := range map[string]struct {
		deadLetter deadletters.DeadLetter
		want       string
	}{
		"the evidence":                 {aboutOwn(recordAsEvidence), "psp_1"},
		"its record":                   {aboutOwn(`{"record":` + recordAsEvidence + `}`), "psp_1"},
		"its answer":                   {aboutOwn(`{"answer":{"id":"psp_1"}}`), "psp_1"},
		"its answer before its record": {aboutOwn(`{"answer":{"id":"psp_1"},"record":{"id":"psp_2"}}`), "psp_1"},
		"its record, the answer is declined": {
			aboutOwn(`{"answer":{"id":"psp_1","status":"declined"},"record":{"id":"psp_2"}}`), "psp_2"},
		"an answer of another form":       {aboutOwn(`{"id":"psp_1","answer":7}`), "psp_1"},
		"evidence of another form":        {aboutOwn(`{"id":7,"answer":{"id":"psp_1"}}`), "psp_1"},
		"an answer that is half readable": {aboutOwn(`{"answer":{"id":"psp_1","status":7}}`), ""},
		"no id":                           {aboutOwn(`{"answer":{"status":"succeeded"}}`), ""},
		"no JSON":                         {aboutOwn(`{`), ""},
		"a decline":                       {aboutOwn(`{"id":"psp_1","status":"declined"}`), ""},
		"its reference":                   {aboutOwn(`{"id":"psp_1","reference":"` + own + `"}`), "psp_1"},
		"another reference":               {aboutOwn(`{"id":"psp_1","reference":"` + other + `"}`), ""},
		"its key": {aboutOwn(`{"id":"psp_1","idempotencyKey":"order-0000000001"}`),
			"psp_1"},
		"another key":                         {aboutOwn(`{"id":"psp_1","idempotencyKey":"order-0000000002"}`), ""},
		"a refund by its reference":           {refund, "psp_1"},
		"a dead letter that names no payment": {nameless, "psp_1"},
		"about no key":                        {nobodys, ""},
	} {
		if got := deadLetterSeen(c.deadLetter).PSPID; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A retry does again what the evidence names: a job, a stored webhook, or the judgement of a record.
func TestDeadLetterNamesWhatARetryDoesAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind     deadletters.Kind
		evidence string
		want     DeadLetterSeen
	}{
		"a webhook": {deadletters.WebhookUnmatched, `{"eventId":"evt_1"}`,
			DeadLetterSeen{EventID: "evt_1"}},
		"a job": {deadletters.JobDiscarded, `{"jobId":7}`, DeadLetterSeen{JobID: 7}},
		"a job of a webhook": {deadletters.JobDiscarded, `{"jobId":7,"args":{"eventId":"evt_1"}}`,
			DeadLetterSeen{JobID: 7, EventID: "evt_1"}},
		"a webhook with args": {deadletters.WebhookUnmatched, `{"eventId":"evt_1","args":{"eventId":"evt_2"}}`,
			DeadLetterSeen{EventID: "evt_1"}},
		"half of another form": {deadletters.JobDiscarded, `{"jobId":7,"args":{"eventId":8}}`, DeadLetterSeen{}},
		"a record": {deadletters.LateAfterExpiry, recordAsEvidence,
			DeadLetterSeen{Record: []byte(recordAsEvidence), PSPID: "psp_1"}},
		"a record in a member": {deadletters.LateAfterExpiry, `{"record":` + recordAsEvidence + `}`,
			DeadLetterSeen{Record: []byte(recordAsEvidence), PSPID: "psp_1"}},
		"no record in a member": {deadletters.LateAfterExpiry, `{"record":{"id":"psp_1"}}`,
			DeadLetterSeen{PSPID: "psp_1"}},
		"a null in a member": {deadletters.LateAfterExpiry, `{"record":null}`, DeadLetterSeen{}},
		"nothing":            {deadletters.LateAfterExpiry, `{}`, DeadLetterSeen{}},
		"no JSON":            {deadletters.LateAfterExpiry, `{`, DeadLetterSeen{}},
	} {
		deadLetter := aboutOwn(c.evidence)
		deadLetter.Kind, deadLetter.ID, deadLetter.Version = c.kind, otherSubject, 3
		got := deadLetterSeen(deadLetter)
		if got.JobID != c.want.JobID || got.EventID != c.want.EventID || string(got.Record) != string(c.want.Record) ||
			got.PSPID != c.want.PSPID || got.Kind != c.kind || got.ID != otherSubject || got.Version != 3 ||
			!got.AboutKey {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := deadLetterSeen(deadletters.DeadLetter{Evidence: []byte(`{}`)}); got.AboutKey {
		t.Errorf("about no key: %+v", got)
	}
}

// A decision is about what the dead letter was opened for. What has the key now may be another payment.
func TestDeadLetterIsAboutWhatItNames(t *testing.T) {
	t.Parallel()
	ref := own().Ref
	at := func(generation int32, subject uuid.UUID) idempotency.KeyView {
		return idempotency.KeyView{Status: idempotency.UnknownStatus, Execution: idempotency.Execution{Ref: ref,
			Subject: subject, Generation: generation}}
	}
	of := func(subject uuid.UUID) *movement {
		return &movement{service: &Service{}, payment: &payment.Payment{ID: payment.ID(subject),
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
		OperatorDecision{Action: deadletters.Retry, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) error {
		step, err := s.service.DecideTx(ctx, tx, deadLetter, inquiry, func() error { return nil })
		if step.Again == nil || step.Again.JobID != 7 {
			t.Errorf("the step is %+v", step)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What could not be read, or a dead letter that could not be closed, is an error, and no decision.
func TestDecisionThatFailsDecidesNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	deadLetter, retry := g.about(1), OperatorDecision{Action: deadletters.Retry}
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
	failed := errors.New("not closed")
	for name, c := range map[string]struct {
		do      func(tx pgx.Tx) error
		closing error
	}{
		"the key is not read":           {func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, nil},
		"the dead letter is not closed": {func(pgx.Tx) error { return nil }, failed},
	} {
		tx, err := s.pool.Begin(t.Context())
		if err == nil {
			err = c.do(tx)
		}
		if err != nil {
			t.Fatal(err)
		}
		step, err := s.service.DecideTx(t.Context(), tx, deadLetter, inquiry, func() error { return c.closing })
		if err == nil || c.closing != nil && !errors.Is(err, failed) {
			t.Errorf("%s: %+v, %v", name, step, err)
		}
		_ = tx.Rollback(t.Context())
	}
	if s.everything() != before {
		t.Error("something has moved")
	}
}
