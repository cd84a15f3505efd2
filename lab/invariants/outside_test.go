package invariants

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
	"payonce/internal/payments"
)

// returned is a payment of 100 of which others have refunded 40 at the PSP, and 20 are disputed, and we know of both.
type returned struct {
	books   *books
	ledger  *Ledger
	payment *movementRow
	at      time.Time // when it was noticed
}

func returnedByOthers() *returned {
	r := &returned{at: time.Now(), payment: &movementRow{ID: uuid.New(), Tenant: "acme", Key: "payment", Generation: 1,
		Amount: 100, Currency: "USD", Status: string(payment.Succeeded), PSPID: "ch_1", Refunded: 40, Outside: 60}}
	kept := outsideRow{Tenant: "acme", Payment: r.payment.ID, Object: refundObject, ID: payments.FirstIDAt(r.at),
		PSPID: "rf_1", Amount: 40, Currency: "USD", Status: string(payment.Succeeded)}
	dispute := kept
	dispute.Object, dispute.PSPID, dispute.Amount, dispute.Status = disputeObject, "dp_1", 20, "lost"
	dispute.Updated = r.at
	r.books = &books{accounts: map[string]string{"acme": "acct"}, subjects: map[uuid.UUID]*movementRow{},
		byPSPID: map[string]*movementRow{}, lives: map[uuid.UUID]*keyRow{}, outside: []outsideRow{kept, dispute}}
	r.ledger = &Ledger{
		Charges: []Entry{{ID: "ch_1", Account: "acct", IdempotencyKey: "payment", Reference: r.payment.String(),
			AmountCents: 100, Currency: "USD", Status: "succeeded"}},
		Refunds: []Entry{{ID: "rf_1", Account: "acct", ChargeID: "ch_1", AmountCents: 40, Currency: "USD",
			Status: "succeeded"}},
		Disputes: []Entry{{ID: "dp_1", Object: disputeObject, Account: "acct", ChargeID: "ch_1", AmountCents: 20,
			Currency: "USD", Status: "lost"}},
	}
	return r.with(r.payment, nil)
}

func (r *returned) with(m *movementRow, k *keyRow) *returned {
	r.books.subjects[m.ID] = m
	if m.PSPID != "" {
		r.books.byPSPID["acct "+m.PSPID] = m
	}
	if k != nil {
		r.books.lives[m.ID] = k
	}
	return r
}

// refund is one of ours, begun and ended so long after others were noticed.
func (r *returned) refund(id string, amount int64, begun, ended time.Duration) *returned {
	m := &movementRow{ID: uuid.New(), PaymentID: &r.payment.ID, Tenant: "acme", Key: id, Generation: 1, Amount: amount,
		Currency: "USD", Status: string(payment.Succeeded), PSPID: id}
	finished := r.at.Add(ended)
	return r.with(m, &keyRow{Reserved: r.at.Add(begun), Finished: &finished})
}

// told has a dead letter about the payment name an object.
func (r *returned) told(id string) {
	r.books.deadLetters = append(r.books.deadLetters, deadLetterRow{Kind: "moved_outside", Subject: &r.payment.ID,
		Evidence: []byte(`{"record":{"id":"` + id + `"}}`)})
}

func (r *returned) world() world {
	r.books.noteNamed()
	w := world{books: r.books, ledger: r.ledger}
	w.outside = w.outsideMoves()
	return w
}

func TestWhatOthersHaveDoneIsKeptAsThePSPHasIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*returned)
		want   string // "" is no violation
		moving bool   // Quiet waits for it
	}{
		"all is known": {func(*returned) {}, "", false},
		"it is taken for somebody else's": {func(r *returned) { r.books.outside, r.payment.Outside = nil, 0 },
			"it has kept nothing", true},
		"somebody was told of something else": {func(r *returned) {
			r.books.outside = r.books.outside[:1]
			r.told("rf_1")
		}, "dp_1 of 20 is lost at the PSP, and it has kept nothing", true},
		"the dispute is not kept, and a dead letter says so": {func(r *returned) {
			r.books.outside, r.payment.Outside = r.books.outside[:1], 40
			r.told("dp_1")
		}, "", false},
		"a refund that came back is not known to": {func(r *returned) { r.ledger.Refunds[0].Status = "failed" },
			"rf_1 is failed at the PSP, and is kept as succeeded", true},
		"a refund that came back is known to": {func(r *returned) {
			r.ledger.Refunds[0].Status, r.books.outside[0].Status = "failed", "reversed"
			r.payment.Refunded, r.payment.Outside = 0, 20
		}, "", false},
		"a refund that came back keeps its share": {func(r *returned) {
			r.ledger.Refunds[0].Status, r.books.outside[0].Status = "failed", "reversed"
		}, "others have moved 60 of it, and has kept 20", false},
		"a refund is on its way": {func(r *returned) {
			r.ledger.Refunds[0].Status, r.books.outside[0].Status, r.payment.Refunded = "pending", "processing", 0
		}, "", false},
		"a dispute was won, and is kept as lost": {func(r *returned) { r.ledger.Disputes[0].Status = "won" },
			"dp_1 is won at the PSP, and is kept as lost", true},
		"a dispute was won": {func(r *returned) {
			r.ledger.Disputes[0].Status, r.books.outside[1].Status, r.payment.Outside = "won", "won", 40
		}, "", false},
		"a refund counts twice": {func(r *returned) { r.payment.Refunded = 80 },
			"shows 80 as returned and 20 as disputed, and the PSP has 40 and 20", false},
		"a refund is shown as nothing": {func(r *returned) { r.payment.Refunded = 0 },
			"shows 0 as returned", false},
		"a refund is shown as nothing, and a dead letter says why": {func(r *returned) {
			r.payment.Refunded = 0
			r.told("rf_1")
		}, "", false},
		"it is kept and not counted": {func(r *returned) { r.payment.Outside = 0 },
			"others have moved 0 of it, and has kept 60", false},
		"another amount is kept": {func(r *returned) { r.books.outside[0].Amount, r.payment.Outside = 39, 59 },
			"39 USD of ch_1 are kept", false},
		"another currency is kept": {func(r *returned) { r.books.outside[0].Currency = "EUR" },
			"40 EUR of ch_1 are kept", false},
		"the PSP has refused it from the start": {func(r *returned) {
			r.ledger.Refunds[0].Status, r.books.outside = "declined", r.books.outside[1:]
			r.payment.Outside, r.payment.Refunded = 20, 0
		}, "", false},
		"the PSP does not have it": {func(r *returned) { r.ledger.Refunds = nil }, `at the PSP it is ""`, false},
		"it is kept for another tenant": {func(r *returned) {
			r.books.accounts["globex"], r.books.outside[0].Tenant = "acct", "globex"
		}, "no payment of the tenant", false},
		"it is a refund of our own, and counts twice": {func(r *returned) {
			r.refund("rf_1", 40, -time.Hour, -time.Hour)
		}, "others have moved 60 of it, and has kept 20", false},
		"it is a refund of our own, and counts as that": {func(r *returned) {
			r.refund("rf_1", 40, -time.Hour, -time.Hour)
			r.payment.Outside = 20
		}, "", false},
		"our own refund came back, and we do not know": {func(r *returned) { r.own("failed", payment.Succeeded) },
			"came back as rf_2, and it is still succeeded", true},
		"our own refund came back": {func(r *returned) { r.own("failed", payment.Reversed) }, "", false},
		"the charge is not known here": {func(r *returned) {
			delete(r.books.byPSPID, "acct ch_1")
			r.payment.PSPID, r.payment.Outside, r.books.outside = "", 0, nil
			for _, id := range []string{"rf_1", "dp_1"} {
				r.books.deadLetters = append(r.books.deadLetters, deadLetterRow{Kind: "unknown_movement",
					Finding: "record acct " + id})
			}
		}, "", false},
		"a dispute of a charge that is not known here, but told of": {func(r *returned) {
			delete(r.books.byPSPID, "acct ch_1")
			r.payment.PSPID, r.payment.Outside, r.books.outside, r.ledger.Refunds = "", 0, nil, nil
			r.books.deadLetters = []deadLetterRow{{Kind: "duplicate_movement", Finding: "record acct ch_1"}}
		}, "", false},
		"it is of no payment of ours": {func(r *returned) {
			r.ledger.Charges[0].Reference, r.payment.PSPID = "", ""
			delete(r.books.byPSPID, "acct ch_1")
			r.books.outside, r.payment.Outside, r.payment.Refunded = nil, 0, 0
		}, "", false},
	} {
		r := returnedByOthers()
		row.change(r)
		w := r.world()
		found := outsideAgrees(w)
		if row.want == "" && len(found) > 0 || row.want != "" && !slices.ContainsFunc(found, func(v Violation) bool {
			return v.Invariant == "I10" && strings.Contains(v.Detail, row.want)
		}) {
			t.Errorf("%s: found %v", name, found)
		}
		if moving := len(unnoticed(w)) > 0; moving != row.moving {
			t.Errorf("%s: moving %t", name, moving)
		}
	}
}

// own is a refund of ours of 30, as the PSP has it and as we do.
func (r *returned) own(there string, here payment.Status) {
	r.refund("rf_2", 30, -time.Hour, -time.Hour)
	m := r.books.byPSPID["acct rf_2"]
	m.Status = string(here)
	r.ledger.Refunds = append(r.ledger.Refunds, Entry{ID: "rf_2", Account: "acct", ChargeID: "ch_1", AmountCents: 30,
		Currency: "USD", Reference: m.String(), IdempotencyKey: "rf_2", Status: there})
}

// What others do is no breach of the promises about what we do.
func TestRefundOfOthersIsNoSendOfOurs(t *testing.T) {
	t.Parallel()
	r := returnedByOthers()
	second := r.ledger.Refunds[0]
	second.ID, second.AmountCents = "rf_2", 40 // without a key, as the first
	r.ledger.Refunds = append(r.ledger.Refunds, second)
	w := r.world()
	if found := executedOnce("refund", r.ledger.Refunds); len(found) > 0 {
		t.Error(found)
	}
	for _, d := range differences(w) {
		if d.entry.ID != "ch_1" { // the key of the charge is not in these books
			t.Error(d.what)
		}
	}
}

func TestWhatOthersDoIsNoticedAndEachBreachIsFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if status := s.pay("acme", paidKey, "pm_ok"); status != http.StatusCreated {
		t.Fatalf("answered %d", status)
	}
	charge := s.text("SELECT psp_charge_id FROM payments")
	s.door("/_refunds", `{"chargeId":%q,"amountCents":5000}`, charge)
	s.door("/_disputes", `{"chargeId":%q,"amountCents":2000}`, charge)
	if s.finds("I10", "it has kept nothing of that"); len(s.check()) == 0 {
		t.Error("nothing is found before anybody has noticed")
	}
	s.reconcile()
	if status := s.refund("acme", "refund-0123456789ab", paidKey, 5001); status != http.StatusConflict {
		t.Errorf("more than is left was answered %d", status)
	}
	if status := s.refund("acme", refundKey, paidKey, 1000); status != http.StatusCreated {
		t.Errorf("what is left was answered %d", status)
	}
	for _, v := range s.check() {
		t.Error(v)
	}
	restore := s.remember()
	const elsewhere = " WHERE origin = 'provider'"
	for sql, detail := range map[string]string{
		"UPDATE payments SET moved_outside_minor = 0":               "others have moved 0 of it",
		"UPDATE payments SET refunded_minor = 11000":                "shows 11000 as returned",
		"UPDATE refunds SET amount_minor = 4999" + elsewhere:        "4999 USD",
		"UPDATE refunds SET psp_refund_id = 'rf_other'" + elsewhere: "has kept nothing of that",
		"UPDATE refunds SET status = 'reversed'" + elsewhere:        "is kept as reversed",
		"UPDATE disputes SET status = 'won'":                        "is kept as won",
		"DELETE FROM disputes":                                      "has kept nothing of that",
	} {
		s.breach(sql)
		s.finds("I10", detail)
		restore()
	}
}

// What came back, was decided, or was only asked is told in the end by webhooks, scan or statement, and by no dead
// letter.
func TestWhatBecomesOfItIsNoticed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.pay("acme", paidKey, "pm_ok")
	s.refund("acme", refundKey, paidKey, 3000)
	charge := s.text("SELECT psp_charge_id FROM payments")
	theirs := s.door("/_refunds", `{"chargeId":%q,"amountCents":1000}`, charge)
	disputed := s.door("/_disputes", `{"chargeId":%q,"amountCents":2000}`, charge)
	s.door("/_disputes", `{"chargeId":%q,"amountCents":500,"inquiry":true}`, charge)
	s.reconcile()
	s.door("/_refunds/"+theirs+"/fail", `{}`)
	s.door("/_refunds/"+s.text("SELECT psp_refund_id FROM refunds WHERE origin = 'api'")+"/fail", `{}`)
	s.door("/_disputes/"+disputed, `{"status":"under_review"}`)
	s.door("/_disputes/"+disputed, `{"status":"won"}`)
	if found := unnoticed(s.world()); len(found) != 3 {
		t.Errorf("unnoticed: %v", found)
	}
	if _, err := s.statement(t.Context(), time.Now().UTC()); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	for _, v := range s.check() {
		t.Error(v)
	}
	if n := s.text("SELECT refunded_minor + moved_outside_minor FROM payments"); n != "0" {
		t.Errorf("%s is still gone", n)
	}
}

// door has others do something at the PSP, and returns the id of what it is about.
func (s *shop) door(path, body string, args ...any) (id string) {
	s.t.Helper()
	response, err := s.psp.Client().Post(s.psp.URL+path, "application/json",
		strings.NewReader(fmt.Sprintf(body, args...)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s answered %d %s", path, response.StatusCode, raw)
	}
	return readDocument(raw).text("id")
}
