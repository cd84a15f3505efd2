package psp

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	stripego "github.com/stripe/stripe-go/v84"
	"github.com/stripe/stripe-go/v84/webhook"

	"payonce/internal/gateway"
)

// Stripe's own library is the judge of the mock, and of our reading of webhooks. It speaks the version of the API that
// our dialect asks for.
func stripeGo(w *world) *stripego.Client {
	w.t.Helper()
	w.wire.takesChunks = true
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	backends := stripego.NewBackendsWithConfig(&stripego.BackendConfig{
		URL: stripego.String(w.wire.url()), HTTPClient: client, MaxNetworkRetries: stripego.Int64(0),
		LeveledLogger: &stripego.LeveledLogger{}, EnableTelemetry: stripego.Bool(false),
	})
	return stripego.NewClient(apiSecret, stripego.WithBackends(backends))
}

func account[T interface{ SetStripeAccount(string) }](params T) T {
	params.SetStripeAccount("acct_acme")
	return params
}

func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// all returns the objects of a list.
func all[T any](t *testing.T, seq stripego.Seq2[T, error]) (items []T) {
	t.Helper()
	for item, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

// newIntent are the parameters with which our dialect makes an intent.
func newIntent(method string) *stripego.PaymentIntentCreateParams {
	return account(&stripego.PaymentIntentCreateParams{
		Amount: stripego.Int64(amount), Currency: stripego.String("usd"), PaymentMethod: stripego.String(method),
		AutomaticPaymentMethods: &stripego.PaymentIntentCreateAutomaticPaymentMethodsParams{
			Enabled: stripego.Bool(true), AllowRedirects: stripego.String("never"),
		},
		Metadata: map[string]string{"origin": "payonce:ours", "reference": reference, "idempotency_key": key},
	})
}

// The mock's answers to each request of a charge and a refund are objects of Stripe's library, with the values that the
// ledger has.
func TestStripesLibraryReadsTheMock(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	c, ctx := stripeGo(w), t.Context()
	made := must[*stripego.PaymentIntent](t)(c.V1PaymentIntents.Create(ctx, newIntent("pm_ok")))
	if made.Status != stripego.PaymentIntentStatusRequiresConfirmation || made.Amount != amount || w.moved() != 0 {
		t.Errorf("made %s, %d", made.Status, made.Amount)
	}
	confirmed := must[*stripego.PaymentIntent](t)(
		c.V1PaymentIntents.Confirm(ctx, made.ID, account(&stripego.PaymentIntentConfirmParams{})))
	again := must[*stripego.PaymentIntent](t)(
		c.V1PaymentIntents.Retrieve(ctx, made.ID, account(&stripego.PaymentIntentRetrieveParams{})))
	if confirmed.Status != stripego.PaymentIntentStatusSucceeded || again.AmountReceived != amount || w.moved() != 1 {
		t.Errorf("confirmed %s, read %d", confirmed.Status, again.AmountReceived)
	}
	other := must[*stripego.PaymentIntent](t)(c.V1PaymentIntents.Create(ctx, newIntent("pm_ok")))
	ended := must[*stripego.PaymentIntent](t)(
		c.V1PaymentIntents.Cancel(ctx, other.ID, account(&stripego.PaymentIntentCancelParams{})))
	if ended.Status != stripego.PaymentIntentStatusCanceled || ended.CanceledAt == 0 {
		t.Errorf("cancelled %s", ended.Status)
	}
	refunded := must[*stripego.Refund](t)(c.V1Refunds.Create(ctx, account(&stripego.RefundCreateParams{
		PaymentIntent: stripego.String(made.ID), Amount: stripego.Int64(1),
	})))
	if refunded.Status != stripego.RefundStatusSucceeded || refunded.PaymentIntent.ID != made.ID || w.moved() != 2 {
		t.Errorf("refunded %+v", refunded)
	}
	w.checkLibraryLists(c, made.ID)
}

// checkLibraryLists reads every list with the library. The search lags behind the lists.
func (w *world) checkLibraryLists(c *stripego.Client, id string) {
	w.t.Helper()
	t, ctx := w.t, w.t.Context()
	refunds := all(t, c.V1Refunds.List(ctx, account(&stripego.RefundListParams{PaymentIntent: &id})))
	charges := all(t, c.V1Charges.List(ctx, account(&stripego.ChargeListParams{})))
	list := account(&stripego.BalanceTransactionListParams{})
	list.AddExpand("data.source")
	booked := all(t, c.V1BalanceTransactions.List(ctx, list))
	if len(refunds) != 1 || len(charges) != 1 || len(booked) != 2 {
		t.Errorf("%d refunds, %d charges, %d transactions", len(refunds), len(charges), len(booked))
	}
	if booked[1].Source.Charge == nil || booked[1].Source.Charge.PaymentIntent.ID != id {
		t.Errorf("the transaction is of %+v", booked[1].Source)
	}
	query := "metadata['reference']:'" + reference + "'"
	search := func() int {
		return len(all(t, c.V1PaymentIntents.Search(ctx, account(&stripego.PaymentIntentSearchParams{
			SearchParams: stripego.SearchParams{Query: query},
		}))))
	}
	if n := search(); n != 0 {
		t.Errorf("the search does not lag: it has found %d", n)
	}
	w.clock.advance(2 * due)
	if n := search(); n != 2 {
		t.Errorf("the search has found %d", n)
	}
}

// The library sees a dispute being opened, won and lost, and a refund that has failed after it had succeeded.
func TestStripesLibraryReadsWhatOthersDo(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	c, ctx := stripeGo(w), t.Context()
	for evidence, end := range map[string]stripego.DisputeStatus{
		"winning_evidence": stripego.DisputeStatusWon, "losing_evidence": stripego.DisputeStatusLost,
	} {
		made := must[*stripego.PaymentIntent](t)(c.V1PaymentIntents.Create(ctx, newIntent("pm_card_createDispute")))
		must[*stripego.PaymentIntent](t)(
			c.V1PaymentIntents.Confirm(ctx, made.ID, account(&stripego.PaymentIntentConfirmParams{})))
		w.later()
		opened := all(t, c.V1Disputes.List(ctx, account(&stripego.DisputeListParams{PaymentIntent: &made.ID})))
		if len(opened) != 1 || opened[0].Status != stripego.DisputeStatusNeedsResponse || opened[0].Amount != amount ||
			opened[0].Reason != stripego.DisputeReasonFraudulent || len(opened[0].BalanceTransactions) != 1 ||
			opened[0].IsChargeRefundable || opened[0].EvidenceDetails.DueBy == 0 {
			t.Fatalf("opened %+v", opened)
		}
		_, err := c.V1Refunds.Create(ctx, account(&stripego.RefundCreateParams{PaymentIntent: &made.ID}))
		if said, ok := errors.AsType[*stripego.Error](err); !ok || said.Code != stripego.ErrorCodeChargeDisputed {
			t.Errorf("the refund of a disputed charge: %v", err)
		}
		id := opened[0].ID
		answered := must[*stripego.Dispute](t)(c.V1Disputes.Update(ctx, id, account(&stripego.DisputeUpdateParams{
			Evidence: &stripego.DisputeUpdateEvidenceParams{UncategorizedText: &evidence},
		})))
		w.later()
		ended := must[*stripego.Dispute](t)(c.V1Disputes.Retrieve(ctx, id, account(&stripego.DisputeRetrieveParams{})))
		if answered.Status != stripego.DisputeStatusUnderReview || ended.Status != end {
			t.Errorf("%s: %s, then %s", evidence, answered.Status, ended.Status)
		}
	}
	made := must[*stripego.PaymentIntent](t)(c.V1PaymentIntents.Create(ctx, newIntent("pm_ok")))
	must[*stripego.PaymentIntent](t)(
		c.V1PaymentIntents.Confirm(ctx, made.ID, account(&stripego.PaymentIntentConfirmParams{})))
	refunded := must[*stripego.Refund](t)(
		c.V1Refunds.Create(ctx, account(&stripego.RefundCreateParams{PaymentIntent: &made.ID})))
	w.admin(http.MethodPost, "/_refunds/"+refunded.ID+"/fail", "")
	back := all(t, c.V1Refunds.List(ctx, account(&stripego.RefundListParams{PaymentIntent: &made.ID})))
	if refunded.Status != stripego.RefundStatusSucceeded || len(back) != 1 ||
		back[0].Status != stripego.RefundStatusFailed || back[0].FailureBalanceTransaction == nil ||
		back[0].FailureReason != "expired_or_canceled_card" {
		t.Errorf("refunded %s, and then %+v", refunded.Status, back)
	}
}

// A decline is an error of the library, with the intent.
func TestStripesLibraryReadsADecline(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	c := stripeGo(w)
	made := must[*stripego.PaymentIntent](t)(c.V1PaymentIntents.Create(t.Context(), newIntent("pm_declined")))
	_, err := c.V1PaymentIntents.Confirm(t.Context(), made.ID, account(&stripego.PaymentIntentConfirmParams{}))
	said, ok := errors.AsType[*stripego.Error](err)
	if !ok || said.Type != stripego.ErrorTypeCard || said.DeclineCode != "insufficient_funds" ||
		said.PaymentIntent == nil || said.PaymentIntent.ID != made.ID {
		t.Errorf("declined as %v", err)
	}
}

// Stripe's library takes each webhook of the mock, and finds the same event about the same object in it as our dialect.
func TestStripesLibraryTakesTheMocksWebhooks(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	id := w.charge(aCharge(w.dialect))
	refunded, ok := w.client.Refund(t.Context(), gateway.Refund{
		Account: "acct_acme", Key: "key-of-the-refund", Attempt: 1, Reference: "re_1", ChargeID: id, AmountMinor: 1,
		Currency: "USD",
	}).(gateway.Succeeded)
	if !ok {
		t.Fatal("the refund has not succeeded")
	}
	about := map[string]string{} // the object of the latest event of each type that moves money
	for _, m := range w.received() {
		signature := m.header.Get("Stripe-Signature")
		e, err := webhook.ConstructEventIgnoringTolerance(m.body, signature, w.dialect.Secrets[0])
		if err != nil {
			t.Fatalf("%v: %s", err, m.body)
		}
		if e.ID != m.delivery.ID || e.APIVersion != stripego.APIVersion {
			t.Errorf("the library has read %s of %s", e.ID, e.APIVersion)
		}
		object, _ := e.Data.Object["id"].(string)
		switch ours := m.event.(type) {
		case gateway.Moved:
			about[ours.Type] = ours.Record.ID
			if ours.Type != string(e.Type) || ours.Record.ID != object {
				t.Errorf("%s about %s, and the library has read %s about %s", ours.Type, ours.Record.ID, e.Type, object)
			}
		case gateway.Ignored:
			if ours.Type != string(e.Type) {
				t.Errorf("ignored as %s, and the library has read %s", ours.Type, e.Type)
			}
		default:
			t.Errorf("refused %v, error %v: %s", m.refused, m.err, m.body)
		}
	}
	want := map[string]string{
		"payment_intent.succeeded": id, "refund.created": refunded.ID, "refund.updated": refunded.ID,
	}
	if !maps.Equal(about, want) {
		t.Errorf("the events that move money are about %v, want %v", about, want)
	}
}

// Our dialect takes what Stripe's library signs, and refuses what it refuses.
func TestSignaturesAreThoseOfStripesLibrary(t *testing.T) {
	t.Parallel()
	w := setup(t, stripeDialect())
	now := w.clock.now()
	body := []byte(`{"id":"evt_1","object":"event","api_version":"` + stripego.APIVersion + `","type":"payout.paid"}`)
	own, other := w.dialect.Secrets[0], w.dialect.Secrets[1]
	signed := func(secret string, at time.Time, scheme string) string {
		return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
			Payload: body, Secret: secret, Timestamp: at, Scheme: scheme,
		}).Header
	}
	good := signed(own, now, "")
	for name, row := range map[string]struct {
		header string
		body   []byte
	}{
		"genuine":        {good, body},
		"another secret": {signed(other, now, ""), body},
		"two secrets":    {signed(other, now, "") + "," + good[len("t="+unix(now)+","):], body},
		"another scheme": {signed(own, now, "v0"), body},
		"changed":        {good, append(body[:len(body):len(body)], ' ')},
		"4 minutes old":  {signed(own, now.Add(-4*time.Minute), ""), body},
		"6 minutes old":  {signed(own, now.Add(-6*time.Minute), ""), body},
		"no header":      {"", body},
		"no time":        {good[len("t="+unix(now)+","):], body},
		"no signature":   {"t=" + unix(now), body},
		"another time":   {"t=" + unix(now.Add(time.Second)) + good[len("t="+unix(now)):], body},
	} {
		// The library has no clock that a test can set. So the signature is the library's, and the age is ours.
		_, theirs := webhook.ConstructEventIgnoringTolerance(row.body, row.header, own)
		_, ours := w.client.VerifyEvent(http.Header{"Stripe-Signature": {row.header}}, row.body)
		stale := errors.Is(ours, gateway.ErrStale)
		if want := name == "6 minutes old"; stale != want || !stale && (ours == nil) != (theirs == nil) {
			t.Errorf("%s: the library says %v, and we say %v", name, theirs, ours)
		}
	}
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
