package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Order is what a client wants to pay.
type Order struct {
	Number   int64 // of the order; one that lies about it has the same
	Amount   int64 // in minor units
	Currency string
	Customer string
	Method   string
	Note     string // the description; may be empty
	Channel  string // in the metadata, beside the order's number
}

// Amounts lie apart: the PSP may charge one unit more than it was asked to, and a liar asks for half a step more.
const (
	amountStep   = 20
	lieAddition  = amountStep / 2
	clientStride = 100_000 // errands of a client
)

// NumberOf reads the number of an order from an amount that was charged for it.
func NumberOf(amount int64) int64 { return amount / amountStep }

func numberOf(client, n int) int64 { return int64(client+1)*clientStride + int64(n) }

func (p Plan) order(r *rand.Rand, client, n int) Order {
	number := numberOf(client, n)
	o := Order{
		Number: number, Amount: number * amountStep, Customer: "cus-" + strconv.Itoa(client),
		Currency: weighted(r, []weight[string]{{"USD", 5}, {"KRW", 2}, {"EUR", 2}, {"JPY", 1}, {"KWD", 1}}),
		Method:   weighted(r, p.methods()),
		Note:     weighted(r, notes) + map[bool]string{true: " no. " + strconv.FormatInt(number, 10)}[r.IntN(3) > 0],
		Channel:  weighted(r, []weight[string]{{"shop", 3}, {"téléphone", 1}, {"", 1}}),
	}
	if odd, is := oddMethod(client, n); is && !p.Stripe {
		o.Method = odd
	}
	return o
}

// notes are what orders are called. Some need escapes in JSON, or have characters of more than a byte.
var notes = []weight[string]{{"", 2}, {"one \"large\" box", 2}, {"für 3 Gäste", 2}, {"two\nlines", 1}, {"주문", 1}}

// methods are what clients pay with. The faults are also drawn at random by the PSP (Mix); here, each is sure to come.
var methods = []weight[string]{
	{"pm_ok", 150}, {"pm_declined", 8}, {"pm_slow", 10}, {"pm_timeout_charged", 4}, {"pm_silent_charged", 4},
	{"pm_timeout_not_charged", 4},
	{"pm_500_charged", 4}, {"pm_500_not_charged", 4}, {"pm_reset_charged", 4}, {"pm_late_charge", 4},
	{"pm_wrong_amount", 1}, {"pm_stuck", 1},
	{"pm_forgotten_key", 2}, {"pm_never", 2}, {"pm_gold", 2}, // the PSP has no such method
}

// stripeMethods are further ones, at Stripe: what goes wrong before the confirmation, and who takes time after it.
var stripeMethods = []weight[string]{
	{"pm_wrong_amount", 2}, {"pm_create_500", 4}, {"pm_create_lost", 4}, {"pm_rate_limited", 4},
	{"pm_conflict", 4}, {"pm_requires_action", 5},
	{"pm_requires_action_abandoned", 4}, {"pm_bank_debit", 4}, {"pm_bank_debit_fails", 3},
}

func (p Plan) methods() []weight[string] {
	if p.Stripe {
		return slices.Concat(methods, stripeMethods)
	}
	return methods
}

// lie is another order under the same number.
func (o Order) lie(r *rand.Rand) Order {
	switch r.IntN(7) {
	case 0:
		o.Amount += lieAddition
	case 1:
		o.Currency = map[bool]string{true: "USD", false: "GBP"}[o.Currency != "USD"]
	case 2:
		o.Customer += "-other"
	case 3:
		o.Note += " or so"
	case 4:
		o.Channel += "-other"
	case 5:
		o.Method = map[bool]string{true: "pm_ok", false: "pm_slow"}[o.Method != "pm_ok"]
	default:
		o.Amount, o.Customer = o.Amount+lieAddition, o.Customer+"-other"
	}
	return o
}

// Intent digests what is asked, whatever its spelling.
func (o Order) Intent() string {
	return digest(fmt.Sprintf("%d %s %s %s %q %q", o.Amount, o.Currency, o.Customer, o.Method, o.Note, o.Channel))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Body spells the order as JSON in one of several ways that mean the same: the order of the members, spaces, escapes,
// and what may be left out.
func (o Order) Body(spelling int) string {
	quote := strconv.Quote
	if spelling%2 == 1 {
		quote = strconv.QuoteToASCII
	}
	metadata := []string{fmt.Sprintf(`"order":"%d"`, o.Number)}
	if o.Channel != "" {
		metadata = append(metadata, `"channel":`+quote(o.Channel))
	}
	if spelling%3 == 1 {
		slices.Reverse(metadata)
	}
	members := []string{
		fmt.Sprintf(`"customerId":%q`, o.Customer), fmt.Sprintf(`"amountCents":%d`, o.Amount),
		fmt.Sprintf(`"currency":%q`, o.Currency),
		fmt.Sprintf(`"reference":"order %d"`, o.Number), `"metadata":{` + strings.Join(metadata, ",") + "}",
	}
	if o.Note != "" || spelling%5 == 0 {
		members = append(members, `"description":`+quote(o.Note))
	}
	if o.Method != "pm_ok" || spelling%2 == 0 {
		members = append(members, fmt.Sprintf(`"paymentMethod":%q`, o.Method))
	}
	first := spelling % len(members)
	members = append(members[first:], members[:first]...)
	return "{" + strings.Join(members, strings.Repeat(" ", spelling%3)+","+strings.Repeat("\n", spelling%2)) + "}"
}
