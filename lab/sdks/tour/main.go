// Command tour uses stripe-go as its users do, unmodified, against the server at STRIPE_URL. It ends with an error if
// something is not as Stripe documents it, and prints the calls that the server does not do.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/client"
	"github.com/stripe/stripe-go/v85/webhook"
)

func main() {
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(os.Getenv("STRIPE_URL")), LeveledLogger: &stripe.LeveledLogger{},
	})
	t := tour{client.New(os.Getenv("STRIPE_KEY"), &stripe.Backends{API: backend})}
	id := t.charge()
	t.decline()
	t.refund(id)
	t.lists(id)
	t.refusals(id)
	takeEvents()
}

type tour struct{ *client.API }

func check(ok bool, what string, got any) {
	if !ok {
		log.Fatalf("%s: %+v", what, got)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "refused", err)
	return value
}

func intent(method string) *stripe.PaymentIntentParams {
	return &stripe.PaymentIntentParams{
		Amount: stripe.Int64(1200), Currency: stripe.String("usd"), PaymentMethod: stripe.String(method),
		AutomaticPaymentMethods: &stripe.PaymentIntentAutomaticPaymentMethodsParams{
			Enabled: stripe.Bool(true), AllowRedirects: stripe.String("never"),
		},
		Metadata: map[string]string{"order": "a 'quoted' one"},
	}
}

// charge makes an intent, twice under one key, and executes it.
func (t tour) charge() (id string) {
	params := intent("pm_card_visa")
	params.SetIdempotencyKey("tour")
	params.AddExpand("latest_charge")
	made := must(t.PaymentIntents.New(params))
	check(must(t.PaymentIntents.New(params)).ID == made.ID, "a repeat has made another intent", made)
	params.Amount = stripe.Int64(1300)
	_, err := t.PaymentIntents.New(params)
	check(said(err).Type == stripe.ErrorTypeIdempotency, "another request under the key", err)
	confirm := &stripe.PaymentIntentConfirmParams{}
	confirm.AddExpand("latest_charge.balance_transaction")
	done := must(t.PaymentIntents.Confirm(made.ID, confirm))
	check(done.Status == stripe.PaymentIntentStatusSucceeded && done.LatestCharge.BalanceTransaction.Amount == 1200,
		"confirmed", done)
	check(must(t.PaymentIntents.Get(made.ID, nil)).AmountReceived == 1200, "read", made)
	other := must(t.PaymentIntents.New(intent("pm_card_mastercard")))
	ended := must(t.PaymentIntents.Cancel(other.ID, nil))
	check(ended.Status == stripe.PaymentIntentStatusCanceled && ended.CanceledAt > 0, "canceled", ended)
	return made.ID
}

func said(err error) *stripe.Error {
	var e *stripe.Error
	check(errors.As(err, &e), "no error of Stripe", err)
	return e
}

func (t tour) decline() {
	const method = "pm_card_visa_chargeDeclinedLostCard"
	made := must(t.PaymentIntents.New(intent(method)))
	_, err := t.PaymentIntents.Confirm(made.ID, nil)
	e := said(err)
	check(e.Type == stripe.ErrorTypeCard && e.DeclineCode == stripe.DeclineCodeLostCard && e.HTTPStatusCode == 402 &&
		e.PaymentIntent.ID == made.ID && e.PaymentMethod.ID == method, "declined", e)
}

func (t tour) refund(id string) {
	params := &stripe.RefundParams{PaymentIntent: &id, Amount: stripe.Int64(200)}
	params.AddExpand("charge")
	made := must(t.Refunds.New(params))
	check(made.Status == stripe.RefundStatusSucceeded && made.Charge.AmountRefunded == 200, "refunded", made)
	params.Amount = stripe.Int64(1001)
	_, err := t.Refunds.New(params)
	check(said(err).Param == "amount", "refunded too much", err)
}

func (t tour) lists(id string) {
	page := &stripe.PaymentIntentListParams{}
	page.Limit = stripe.Int64(2) // the library asks for the further pages
	var n int
	intents := t.PaymentIntents.List(page)
	for intents.Next() {
		n++
	}
	check(intents.Err() == nil && n == 3, "intents listed", n)
	refunds := t.Refunds.List(&stripe.RefundListParams{PaymentIntent: &id})
	check(refunds.Next() && refunds.Refund().Amount == 200 && !refunds.Next(), "refunds listed", refunds.Err())
	charges := t.Charges.List(&stripe.ChargeListParams{PaymentIntent: &id})
	check(charges.Next() && charges.Charge().PaymentIntent.ID == id, "charges listed", charges.Err())
	books := &stripe.BalanceTransactionListParams{}
	books.AddExpand("data.source")
	booked := t.BalanceTransactions.List(books)
	check(booked.Next() && booked.BalanceTransaction().Source.Refund.Amount == 200, "balance listed", booked.Err())
	search := &stripe.PaymentIntentSearchParams{}
	search.Query = `metadata['order']:"a 'quoted' one"`
	found := t.PaymentIntents.Search(search)
	check(found.Next() && found.Next() && found.Next() && !found.Next(), "searched", found.Err())
}

// refusals asks for what the server does not do.
func (t tour) refusals(id string) {
	named := map[string]func(*stripe.PaymentIntentParams){
		"capture_method": func(p *stripe.PaymentIntentParams) { p.CaptureMethod = stripe.String("manual") },
		"confirm":        func(p *stripe.PaymentIntentParams) { p.Confirm = stripe.Bool(true) },
		"customer":       func(p *stripe.PaymentIntentParams) { p.Customer = stripe.String("cus_1") },
		"expand":         func(p *stripe.PaymentIntentParams) { p.AddExpand("customer") },
		"currency":       func(p *stripe.PaymentIntentParams) { p.Currency = stripe.String("xts") },
	}
	for name, change := range named {
		params := intent("pm_card_visa")
		change(params)
		_, err := t.PaymentIntents.New(params)
		e := said(err)
		check(e.Type == stripe.ErrorTypeInvalidRequest && e.Param == name, "not refused by name: "+name, e)
	}
	charges := t.Charges.List(&stripe.ChargeListParams{Customer: stripe.String("cus_1")})
	check(!charges.Next() && said(charges.Err()).Param == "customer", "a filter", charges.Err())
	for call, err := range map[string]error{
		"PaymentIntents.Capture": errorOf(t.PaymentIntents.Capture(id, nil)),
		"PaymentIntents.Update":  errorOf(t.PaymentIntents.Update(id, nil)),
		"Charges.Get":            errorOf(t.Charges.Get("ch_1", nil)),
		"Refunds.Get":            errorOf(t.Refunds.Get("re_1", nil)),
		"Events.Get":             errorOf(t.Events.Get("evt_1", nil)),
		"PaymentMethods.Get":     errorOf(t.PaymentMethods.Get("pm_card_visa", nil)),
		"Customers.New":          errorOf(t.Customers.New(&stripe.CustomerParams{})),
	} {
		e := said(err)
		check(e.Type == stripe.ErrorTypeInvalidRequest && e.HTTPStatusCode == 404, "not refused: "+call, e)
		fmt.Println("not done:", call)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// takeEvents takes the webhooks that have arrived, and refuses one that was changed.
func takeEvents() {
	res := must(http.Get(os.Getenv("EVENTS_URL") + "?until=refund.created"))
	defer res.Body.Close()
	var all []struct{ Signature, Body string }
	check(json.NewDecoder(res.Body).Decode(&all) == nil && len(all) > 0, "webhooks", res.Status)
	secret := os.Getenv("WEBHOOK_SECRET")
	for _, one := range all {
		must(webhook.ConstructEvent([]byte(one.Body), one.Signature, secret))
		_, err := webhook.ConstructEvent([]byte(one.Body+" "), one.Signature, secret)
		check(errors.Is(err, webhook.ErrNoValidSignature), "a changed webhook", err)
	}
}
