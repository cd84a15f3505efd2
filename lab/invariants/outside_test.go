package invariants

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
)

// returned is a payment of 100 of which others have refunded 60 at the PSP, and we know of it.
type returned struct {
	books   *books
	ledger  *Ledger
	payment *movementRow
	at      time.Time // when it was noticed
}

func returnedByOthers() *returned {
	r := &returned{at: time.Now(), payment: &movementRow{ID: uuid.New(), Tenant: "acme", Key: "payment", Generation: 1,
		Amount: 100, Currency: "USD", Status: string(payment.Succeeded), PSPID: "ch_1", Outside: 60}}
	r.books = &books{accounts: map[string]string{"acme": "acct"}, subjects: map[uuid.UUID]*movementRow{},
		byPSPID: map[string]*movementRow{}, lives: map[uuid.UUID]*keyRow{}, outside: []outsideRow{{
			Tenant: "acme", Payment: r.payment.ID, Object: refundObject, PSPID: "rf_1", Amount: 60, Currency: "USD",
			Status: string(payment.Succeeded), Seen: r.at,
		}},
		deadLetters: []deadLetterRow{{Kind: movedOutside, Subject: &r.payment.ID,
			Finding:  "succeeded 60 refund record acct rf_1",
			Evidence: []byte(`{"record":{"id":"rf_1","status":"succeeded"}}`)}}}
	r.ledger = &Ledger{
		Charges: []Entry{{ID: "ch_1", Account: "acct", IdempotencyKey: "payment", Reference: r.payment.String(),
			AmountCents: 100, Currency: "USD", Status: "succeeded"}},
		Refunds: []Entry{{ID: "rf_1", Account: "acct", ChargeID: "ch_1", AmountCents: 60, Currency: "USD",
			Status: "succeeded"}},
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

func (r *returned) world() world {
	r.books.noteNamed()
	w := world{books: r.books, ledger: r.ledger}
	w.outside = w.outsideMoves()
	return w
}

func TestWhatOthersHaveMovedIsKeptAndToldOf(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*returned)
		want   string // "" is no violation
		moving bool   // Quiet waits for it
	}{
		"all is known": {func(*returned) {}, "", false},
		"nobody was told": {func(r *returned) { r.books.deadLetters = nil },
			"no dead letter about it", true},
		"somebody was told of another payment": {func(r *returned) { r.books.deadLetters[0].Subject = &uuid.Nil },
			"no dead letter about it", true},
		"somebody was told of something else": {func(r *returned) { r.books.deadLetters[0].Kind = "unknown_movement" },
			"no dead letter about it", true},
		"it is taken for somebody else's": {func(r *returned) {
			r.books.outside, r.books.deadLetters, r.payment.Outside = nil, nil, 0
		}, "it has kept nothing", true},
		"it is kept and not counted": {func(r *returned) { r.payment.Outside = 0 },
			"others have moved 0 of it, and has kept 60", false},
		"it is counted and not kept": {func(r *returned) { r.payment.Outside = 61 },
			"others have moved 61 of it, and has kept 60", false},
		"another amount is kept": {func(r *returned) { r.books.outside[0].Amount, r.payment.Outside = 59, 59 },
			"59 USD of ch_1 are kept", false},
		"the PSP has declined it": {func(r *returned) { r.ledger.Refunds[0].Status = "declined" },
			`at the PSP it is "declined"`, false},
		"both say that it is declined": {func(r *returned) {
			r.ledger.Refunds[0].Status, r.books.outside[0].Status, r.payment.Outside = "declined", "declined", 0
		}, "", false},
		"the PSP does not have it": {func(r *returned) { r.ledger.Refunds = nil }, `at the PSP it is ""`, false},
		"it is kept for another tenant": {func(r *returned) {
			r.books.accounts["globex"], r.books.outside[0].Tenant = "acct", "globex"
		}, "no payment of the tenant", false},
		"it is a refund of our own, and counts twice": {func(r *returned) {
			r.refund("rf_1", 60, -time.Hour, -time.Hour)
		}, "others have moved 60 of it, and has kept 0", false},
		"it is a refund of our own, and counts as that": {func(r *returned) {
			r.refund("rf_1", 60, -time.Hour, -time.Hour)
			r.payment.Outside = 0
		}, "", false},
		"the charge is not known here": {func(r *returned) {
			delete(r.books.byPSPID, "acct ch_1")
			r.payment.PSPID, r.payment.Outside, r.books.outside = "", 0, nil
			r.books.deadLetters[0].Kind, r.books.deadLetters[0].Subject = "unknown_movement", nil
		}, "", false},
		"it is of no payment of ours": {func(r *returned) {
			r.ledger.Charges[0].Reference, r.payment.PSPID = "", ""
			delete(r.books.byPSPID, "acct ch_1")
			r.books.outside, r.payment.Outside = nil, 0
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

// What others have moved bounds our refunds from when it is known.
func TestRefundThatWasBegunBeyondWhatIsLeftIsFound(t *testing.T) {
	t.Parallel()
	late := outsideLag + time.Second
	for name, row := range map[string]struct {
		change func(*returned)
		found  int
	}{
		"within what is left":         {func(r *returned) { r.refund("rf_2", 40, late, late) }, 0},
		"beyond it":                   {func(r *returned) { r.refund("rf_2", 41, late, late) }, 1},
		"beyond it, when nobody knew": {func(r *returned) { r.refund("rf_2", 100, -late, late) }, 0},
		"beyond it, at the same time": {func(r *returned) { r.refund("rf_2", 100, time.Second, late) }, 0},
		"within it, and another was done": {func(r *returned) {
			r.refund("rf_2", 40, 0, 0).refund("rf_3", 1, late, late)
		}, 1},
		"within it, with another under way": {func(r *returned) {
			r.refund("rf_2", 40, 0, late).refund("rf_3", 40, late, late)
		}, 0},
		"nothing was moved outside": {func(r *returned) {
			r.books.outside = nil
			r.refund("rf_2", 100, late, late)
		}, 0},
	} {
		r := returnedByOthers()
		row.change(r)
		if found := r.world().begunBeyond(); len(found) != row.found {
			t.Errorf("%s: %v", name, found)
		}
	}
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

func TestRefundOfOthersIsNoticedAndEachBreachIsFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if status := s.pay("acme", paidKey, "pm_ok"); status != http.StatusCreated {
		t.Fatalf("answered %d", status)
	}
	charge := s.text("SELECT psp_charge_id FROM payments")
	s.charge("/"+charge+"/refunds", "others-1", `{"amountCents":5000,"currency":"USD"}`)
	if s.finds("I10", "it has kept nothing of that"); len(s.checkOthers()) == 0 {
		t.Error("nothing is found before anybody has noticed")
	}
	s.reconcile()
	if status := s.refund("acme", "refund-0123456789ab", paidKey, 7001); status != http.StatusConflict {
		t.Errorf("more than is left was answered %d", status)
	}
	for _, v := range s.checkOthers() {
		t.Error(v)
	}
	restore := s.remember()
	for sql, detail := range map[string]string{
		"UPDATE payments SET moved_outside_minor = 0":                                     "others have moved 0 of it",
		"UPDATE dead_letters SET subject = NULL":                                          "no dead letter about it",
		"UPDATE dead_letters SET kind = 'webhook_unmatched' WHERE kind = 'moved_outside'": "no dead letter",
		"UPDATE outside_movements SET amount_minor = 4999":                                "4999 USD",
		"UPDATE outside_movements SET psp_id = 'rf_of_something'":                         "has kept nothing of that",
	} {
		s.breach(sql)
		s.finds("I10", detail)
		restore()
	}
}

// checkOthers is check with the keys of the others.
func (s *shop) checkOthers() []Violation {
	return s.checkWith(func(e *Evidence) { e.Others = []string{"others-1"} })
}
