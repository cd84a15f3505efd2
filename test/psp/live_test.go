package psp

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// The rows without faults run against Stripe itself, in test mode, if STRIPE_TEST_KEY has a key of it. The payment
// methods are those of https://docs.stripe.com/testing.
func TestStripeItself(t *testing.T) {
	secret := os.Getenv("STRIPE_TEST_KEY")
	switch {
	case secret == "":
		t.Skip("STRIPE_TEST_KEY is not set; with a key of Stripe's test mode, this runs against api.stripe.com")
	case !strings.HasPrefix(secret, "sk_test_") && !strings.HasPrefix(secret, "rk_test_"):
		t.Fatal("STRIPE_TEST_KEY is not a key of the test mode")
	}
	client, err := liveClient(secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for method, want := range map[string]string{
		"pm_card_visa":                            "succeeded",
		"pm_card_mastercard":                      "succeeded",
		"pm_card_chargeDeclined":                  "declined: generic_decline",
		"pm_card_chargeDeclinedInsufficientFunds": "declined: insufficient_funds",
		"pm_card_authenticationRequired":          "pending: requires_action",
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			playLive(t, client, method, want)
		})
	}
}

// playLive charges, looks up, sends again, and gives back.
func playLive(t *testing.T, client gateway.PSP, method, want string) {
	t.Helper()
	began := time.Now().Add(-time.Minute)
	ch := aCharge(stripeDialect())
	ch.Account, ch.PaymentMethod, ch.Key, ch.Reference = "default", method, rand.Text(), "pay_"+rand.Text()
	id, refused := client.Prepare(t.Context(), ch)
	if refused != nil {
		t.Fatalf("%+v", refused)
	}
	if again, _ := client.Prepare(t.Context(), ch); again != id {
		t.Errorf("made %s, and again %s", id, again)
	}
	ch.ObjectID = id
	o := client.Charge(t.Context(), ch)
	if got := outcomeWords(o); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if got := outcomeWords(client.Charge(t.Context(), ch)); got != want {
		t.Errorf("sent again: %s, want %s", got, want)
	}
	switch l := client.Lookup(t.Context(), ch, gateway.EndWaiting).(type) {
	case gateway.Found:
		if len(l.Records) != 1 || outcomeWords(ch.Judge(l.Records[0])) != want {
			t.Errorf("found %+v, want %s", l.Records, want)
		}
	case gateway.NotFound:
		if _, waits := o.(gateway.Pending); !waits || !l.Final {
			t.Errorf("%+v", l)
		}
	case gateway.Waiting, gateway.LookupFailed:
		t.Errorf("%T %+v", l, l)
	}
	if want == "succeeded" {
		refundLive(t, client, ch, began)
	}
}

func refundLive(t *testing.T, client gateway.PSP, ch gateway.Charge, began time.Time) {
	t.Helper()
	r := gateway.Refund{
		Account: ch.Account, Key: rand.Text(), Attempt: 1, Reference: "re_" + rand.Text(), ChargeID: ch.ObjectID,
		AmountMinor: amount, Currency: "USD",
	}
	first, second := client.Refund(t.Context(), r), client.Refund(t.Context(), r)
	if outcomeWords(first) != "succeeded" || first != second {
		t.Errorf("refund: %+v, and again %+v", first, second)
	}
	for cursor := ""; ; {
		page, err := client.List(t.Context(), gateway.ChargeObject, ch.Account, began, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range page.Records {
			if record.ID == ch.ObjectID {
				return
			}
		}
		if cursor = page.Next; cursor == "" {
			t.Errorf("the list does not have %s", ch.ObjectID)
			return
		}
	}
}

func liveClient(secret string) (gateway.PSP, error) {
	return newStripe("https://api.stripe.com", secret, "ours", nil, gateway.DefaultLimits(), time.Now)
}
