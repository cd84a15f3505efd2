package invariants

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
)

// erred are books with one payment, and a ledger with a charge of it by a fault.
func erred(deadLetters ...deadLetterRow) (world, *movementRow) {
	m := &movementRow{ID: uuid.New(), Tenant: "acme", Key: "key-1", Generation: 1, Amount: 500, Currency: "USD",
		Method: "pm_wrong_currency", Status: "succeeded", PSPID: "ch_1"}
	k := &keyRow{Tenant: m.Tenant, Operation: m.operation(), Key: m.Key, Generation: 1, Status: "completed",
		Subject: m.ID}
	b := &books{
		accounts: map[string]string{"acme": "acme"}, keys: map[keyName]*keyRow{k.name(): k},
		subjects: map[uuid.UUID]*movementRow{m.ID: m},
		lives:    map[uuid.UUID]*keyRow{m.ID: k}, deadLetters: deadLetters,
	}
	b.noteNamed()
	e := Entry{
		ID: "ch_1", Account: "acme", IdempotencyKey: "key-1", Reference: m.String(), AmountCents: 500, Currency: "EUR",
		PaymentMethod: "pm_wrong_currency", Status: "succeeded", Fault: "pm_wrong_currency",
	}
	return world{books: b, ledger: &Ledger{Charges: []Entry{e}}}, m
}

func TestWhatThePSPDoesOfItsOwnAccordNeedsADeadLetterThatNamesIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		deadLetter deadLetterRow
		excused    bool
	}{
		"no dead letter": {deadLetterRow{}, false},
		"a record that it holds": {deadLetterRow{Kind: "contradicts_completed",
			Evidence: []byte(`{"record":{"id":"ch_1"}}`)}, true},
		"an answer that it holds": {deadLetterRow{Kind: "psp_contradicts_request",
			Evidence: []byte(`{"answer":{"id":"ch_1"}}`)}, true},
		"an id of what cannot be read": {deadLetterRow{Kind: "unreadable_record",
			Evidence: []byte(`{"id":"ch_1","text":"…"}`)}, true},
		"a finding by the record": {deadLetterRow{Kind: "duplicate_movement", Finding: "record acme ch_1"}, true},
		"a finding by key and record": {deadLetterRow{Kind: "psp_contradicts_request",
			Finding: "key acme POST /payments key-1 1 record ch_1"}, true},
		"another record of the payment": {deadLetterRow{Kind: "contradicts_completed",
			Evidence: []byte(`{"record":{"id":"ch_2"}}`)}, false},
		"a refund of the record": {deadLetterRow{Kind: "contradicts_completed",
			Evidence: []byte(`{"record":{"id":"rf_1","chargeId":"ch_1"}}`)}, false},
		"a dead letter of another kind": {deadLetterRow{Kind: "lookups_exhausted",
			Evidence: []byte(`{"record":{"id":"ch_1"}}`)}, false},
	} {
		w, _ := erred(row.deadLetter)
		if found := ledgerAgrees(w); (len(found) == 0) != row.excused {
			t.Errorf("%s: I4 finds %v", name, found)
		}
		second := w.ledger.Charges[0]
		second.IdempotencyKey = "key-2"
		w.ledger.Charges = append(w.ledger.Charges, second)
		if found := chargedOnce(w); (len(found) == 0) != row.excused {
			t.Errorf("%s: I1 finds %v", name, found)
		}
		if found := reserved(w); (len(found) == 0) != row.excused {
			t.Errorf("%s: I9 finds %v", name, found)
		}
	}
}

// A dead letter alone is no excuse: the entry's fault says whether the PSP has erred.
func TestDeadLetterAboutWhatThePSPHasDoneAsAskedExcusesNothing(t *testing.T) {
	t.Parallel()
	w, _ := erred(deadLetterRow{Kind: "contradicts_completed", Finding: "record acme ch_1"})
	w.ledger.Charges[0].Fault = "pm_ok"
	if len(ledgerAgrees(w)) == 0 {
		t.Error("it is excused")
	}
}

// The PSP has answered one payment with the id of another one's charge, which it then shows to nobody. An operator who
// vouches for that other payment cannot name it.
func TestChargeWhoseIDWasGivenAwayIsExcusedByAnOperatorsWord(t *testing.T) {
	t.Parallel()
	const exhausted, discarded = "lookups_exhausted", "job_discarded"
	for name, row := range map[string]struct {
		kind, action string
		fault        string // of the payment that has the id
		named        bool   // its own record has a dead letter
		fine         bool
	}{
		"called executed":               {exhausted, "executed", wrongID, true, true},
		"called executed as a job":      {discarded, "executed", wrongID, true, true},
		"tried again":                   {exhausted, "retry", wrongID, true, false},
		"the id was not given away":     {exhausted, "executed", "pm_ok", true, false},
		"nobody knows of the other one": {exhausted, "executed", wrongID, false, false},
		"nobody has decided about it":   {exhausted, "", wrongID, true, false},
	} {
		w, other := erred(deadLetterRow{Kind: "contradicts_completed", Finding: "record acme ch_2"})
		own := &movementRow{ID: uuid.New(), Tenant: "acme", Key: "key-2", Generation: 1, Amount: 700, Currency: "USD",
			Method: "pm_stuck", Status: "succeeded", PSPID: "operator:1"}
		w.books.subjects[own.ID] = own
		k := &keyRow{Tenant: own.Tenant, Operation: own.operation(), Key: own.Key, Generation: 1, Status: "completed",
			Subject: own.ID}
		w.books.keys[k.name()], w.books.lives[own.ID] = k, k
		w.books.deadLetters = append(w.books.deadLetters,
			deadLetterRow{Kind: row.kind, Subject: &own.ID, Action: row.action})
		if !row.named {
			w.books.deadLettered = nil
		}
		stuck, taker := w.ledger.Charges[0], w.ledger.Charges[0]
		stuck.IdempotencyKey, stuck.Reference, stuck.AmountCents, stuck.Currency = "key-2", own.String(), 700, "USD"
		stuck.PaymentMethod, stuck.Fault = "pm_stuck", "pm_stuck"
		taker.ID, taker.Currency, taker.PaymentMethod, taker.Fault = "ch_2", "USD", row.fault, row.fault
		other.Method = row.fault
		w.ledger.Charges = []Entry{stuck, taker}
		excused := true
		for _, d := range differences(w) {
			excused = excused && (d.row != own || w.excused(d))
		}
		if excused != row.fine {
			t.Errorf("%s: excused is %t, want %t", name, excused, row.fine)
		}
	}
}

func TestDeclineBehindADeadLetterThatSaysChargedIsFound(t *testing.T) {
	t.Parallel()
	told := time.Now()
	before, after := told.Add(-time.Second), told.Add(time.Second)
	const charged = `{"record":{"id":"ch_1","status":"succeeded"}}`
	const declined = `{"record":{"id":"ch_1","status":"declined"}}`
	for name, row := range map[string]struct {
		opened   time.Time
		resolved *time.Time
		evidence string
		found    bool
	}{
		"open":                {before, nil, charged, true},
		"resolved afterwards": {before, &after, charged, true},
		"resolved before":     {before, &before, charged, false},
		"opened afterwards":   {after, nil, charged, false},
		"it says declined":    {before, nil, declined, false},
	} {
		w, m := erred()
		m.Status = string(payment.Declined)
		w.books.lives[m.ID].Finished = &told
		w.books.deadLetters = []deadLetterRow{{Kind: "psp_contradicts_request", Subject: &m.ID, Opened: row.opened,
			Resolved: row.resolved, Evidence: []byte(row.evidence)}}
		if found := refusedThoughCharged(w, Evidence{}); (len(found) > 0) != row.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A PSP that makes two entries for one request may decline both. No money has moved, and one of them is ours.
func TestSecondDeclineOfOneRequestIsNoDifference(t *testing.T) {
	t.Parallel()
	for fault, agrees := range map[string]bool{chargedTwice: true, declineAfter: true, "pm_wrong_id": false} {
		w, m := erred()
		m.Status, m.Decline = "declined", "no_money"
		first := w.ledger.Charges[0]
		first.Status, first.DeclineCode, first.Currency, first.Fault = "declined", "no_money", m.Currency, fault
		second := first
		second.ID, second.DeclineCode = "ch_2", "insufficient_funds"
		w.ledger.Charges = []Entry{first, second}
		if found := ledgerAgrees(w); (len(found) == 0) != agrees {
			t.Errorf("%s: I4 finds %v", fault, found)
		}
	}
}
