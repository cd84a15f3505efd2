package main

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
	"payonce/lab/invariants"
	"payonce/lab/program"
)

// books compare what clients wanted and were told with what the PSP has charged. They know nothing of the server, so
// they can be kept of any server: an order is found in the PSP's ledger by its amount (see package plan).
type books struct {
	Orders             int `json:"orders"`             // that clients have sent, each in a life of its own of a key
	Paid               int `json:"paid"`               // told 201
	Declined           int `json:"declined"`           // told 402
	ChargedTwice       int `json:"chargedTwice"`       // orders with more than one successful charge
	SurplusCharges     int `json:"surplusCharges"`     // charges beyond the first
	ChargedToldFailed  int `json:"chargedToldFailed"`  // charged, and the client's last word is an error
	ToldPaidNotCharged int `json:"toldPaidNotCharged"` // told 201, and never charged
	// lives of keys in which an order was told 201 that is not the one that was paid
	OthersAnswer     int `json:"othersAnswer"`
	DifferentReplays int `json:"differentReplays"` // keys that were told two different final answers
	// charged, and the server's list of payments does not have that charge
	Lost int `json:"lost"`
}

// orderBook is what is known of one order.
type orderBook struct {
	charges  []invariants.Entry // successful ones
	astray   bool               // the PSP has charged for it of its own accord, and a dead letter names that charge
	final    []byte             // the first final answer
	replayed bool               // with other bytes
	paid     map[string]bool    // intents that were told 201
	declined bool
	asked    int64 // amountCents
	last     int   // status of the last answer
	key      string
	life     int // of the key
}

// keepBooks reads a run. listed are the PSP's ids of the charges that the server itself knows as succeeded, each with
// the number of the order that it is listed for. strays are what the PSP has done of its own accord: nobody is blamed
// for them, but they may be what an operator has vouched for, in whatever account they are. One that is listed for
// another order is not: the PSP has told its id where it was asked for another charge (pm_wrong_id).
func keepBooks(
	operations []history.Operation, ledger *invariants.Ledger, listed map[string]int64, strays, missed map[string]bool,
) books {
	orders := map[string]*orderBook{}
	for _, o := range operations {
		if o.Route == history.PaymentsRoute {
			noteAnswer(orders, o)
		}
	}
	for _, e := range ledger.Charges {
		if !e.Executed() {
			continue
		}
		if strays[e.ID] {
			for _, tenant := range plan.Tenants() {
				if book := orders[bookName(tenant, e.AmountCents)]; book != nil {
					book.astray = true
				}
			}
			if number, known := listed[e.ID]; !known || number != plan.NumberOf(e.AmountCents) ||
				e.Fault == "pm_wrong_account" {
				continue
			}
		}
		if book := orders[bookName(e.Account, e.AmountCents)]; book != nil {
			book.charges = append(book.charges, e)
		}
	}
	life := map[string]int{}
	for _, book := range orders {
		life[book.key] = max(life[book.key], book.life)
	}
	var b books
	for _, book := range orders {
		// The last that it heard was to ask again, and nobody has: its key has come to its end.
		b.add(book, listed, book.last == http.StatusServiceUnavailable &&
			(missed[book.key] || book.life < life[book.key]))
	}
	return b
}

// bookName names an order by its number: a key may stand for several, one after another.
func bookName(tenant string, amount int64) string {
	return tenant + " " + strconv.FormatInt(plan.NumberOf(amount), 10)
}

func noteAnswer(orders map[string]*orderBook, o history.Operation) {
	var asked struct {
		Amount int64 `json:"amountCents"`
	}
	_ = json.Unmarshal(o.Body, &asked) // without one, nothing is charged for it
	name := bookName(o.Tenant, asked.Amount)
	book := orders[name]
	if book == nil {
		book = &orderBook{paid: map[string]bool{}, asked: asked.Amount}
		orders[name] = book
	}
	if !o.Answered() {
		return
	}
	book.key, book.life = o.Tenant+" "+o.Route+" "+o.Key, max(book.life, o.Life)
	if o.Status != http.StatusUnprocessableEntity { // that is told to a liar, of the number of somebody's order
		book.last = o.Status
	}
	if o.Status != http.StatusCreated && o.Status != http.StatusPaymentRequired {
		return
	}
	if o.Status == http.StatusCreated {
		book.paid[o.Intent] = true
	} else {
		book.declined = true
	}
	if book.final == nil {
		book.final = o.Answer
	} else if !bytes.Equal(book.final, o.Answer) {
		book.replayed = true
	}
}

func (b *books) add(book *orderBook, listed map[string]int64, missed bool) {
	b.Orders++
	b.Paid += one(len(book.paid) > 0)
	b.Declined += one(book.declined)
	b.ChargedTwice += one(len(book.charges) > 1)
	b.SurplusCharges += max(0, len(book.charges)-1)
	// 409 and 429 say to ask again. 410 says to ask a person, who has a dead letter: the PSP has charged another amount
	// after the key was released.
	failed := book.last >= http.StatusBadRequest && len(book.paid) == 0 && book.last != http.StatusConflict &&
		book.last != http.StatusTooManyRequests && (book.last != http.StatusGone || book.chargedAsAsked())
	b.ChargedToldFailed += one(len(book.charges) > 0 && failed && !missed)
	b.ToldPaidNotCharged += one(len(book.charges) == 0 && len(book.paid) > 0 && !book.astray)
	b.OthersAnswer += one(len(book.paid) > 1)
	b.DifferentReplays += one(book.replayed)
	for _, c := range book.charges {
		_, known := listed[c.ID]
		b.Lost += one(!known && listed != nil)
	}
}

// chargedAsAsked reports whether a charge has the amount that was asked for.
func (b *orderBook) chargedAsAsked() bool {
	return slices.ContainsFunc(b.charges, func(c invariants.Entry) bool { return c.AmountCents == b.asked })
}

// violations are those that need no look inside.
func (b books) violations() []program.Violation {
	var found []program.Violation
	for _, of := range []struct {
		n               int
		invariant, what string
	}{
		{b.ChargedTwice, "I1", "orders were charged more than once"},
		{b.ToldPaidNotCharged, "I4", "orders were told 201 and never charged"},
		{b.ChargedToldFailed, "I4", "orders were charged, and the last that their client has heard is an error"},
		{b.OthersAnswer, "I7", "keys have answered 201 to different orders"},
		{b.DifferentReplays, "I3", "keys were answered differently"},
	} {
		if of.n > 0 {
			found = append(found, program.Broken(of.invariant, "the clients' books",
				strings.TrimSpace(plural(of.n)+of.what)))
		}
	}
	return found
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// byTenant is a ledger whose entries lie with the tenants that the accounts belong to.
func byTenant(ledger *invariants.Ledger, account func(tenant string) string) *invariants.Ledger {
	tenants := map[string]string{}
	for _, tenant := range plan.Tenants() {
		tenants[account(tenant)] = tenant
	}
	of := invariants.Ledger{Charges: slices.Clone(ledger.Charges), Refunds: slices.Clone(ledger.Refunds)}
	for _, entries := range [][]invariants.Entry{of.Charges, of.Refunds} {
		for i, e := range entries {
			entries[i].Account = cmp.Or(tenants[e.Account], e.Account)
		}
	}
	return &of
}
