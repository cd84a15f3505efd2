package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"payonce/internal/gateway"
)

// counting is a provider that counts what it is asked. Only what these tests ask is there.
type counting struct {
	gateway.PSP

	closed, inFlight int
}

func (c *counting) InFlight() int { return c.inFlight }
func (c *counting) Close()        { c.closed++ }

func TestProvidersAreFoundByName(t *testing.T) {
	t.Parallel()
	one, other := &counting{inFlight: 2}, &counting{inFlight: 3}
	psps := gateway.PSPs{"one": one, "other": other}
	if psps.Of("one") != gateway.PSP(one) || psps.Of("other") != gateway.PSP(other) {
		t.Fatal("a name leads to another provider")
	}
	if n := psps.InFlight(); n != 5 {
		t.Fatalf("%d requests in flight, want 5", n)
	}
	psps.Close()
	if one.closed != 1 || other.closed != 1 {
		t.Fatalf("closed %d and %d times", one.closed, other.closed)
	}
	if none := (gateway.PSPs)(nil); none.InFlight() != 0 || none.Of("one").InFlight() != 0 {
		t.Fatal("without a provider, something is in flight")
	}
}

// A tenant may have a provider that this process has no settings for. Nothing is sent, which is known for certain; and
// nothing is known of what was sent before.
func TestProviderWithoutSettingsSendsNothingAndKnowsNothing(t *testing.T) {
	t.Parallel()
	const reason = "this process has no settings for the tenant's PSP, which is other"
	refused := gateway.NotExecuted{Reason: reason}
	psp := gateway.PSPs{"one": &counting{}}.Of("other")
	ctx := context.Background()
	if psp.Ready("canary-account") {
		t.Error("it is ready")
	}
	if id, o := psp.Prepare(ctx, aCharge()); id != "" || o != refused {
		t.Errorf("prepared %q, %+v", id, o)
	}
	if o := psp.Charge(ctx, aCharge()); o != refused {
		t.Errorf("charge %+v", o)
	}
	if o := psp.Refund(ctx, aRefund()); o != refused {
		t.Errorf("refund %+v", o)
	}
	for _, end := range []gateway.End{gateway.EndNothing, gateway.EndUnsent, gateway.EndWaiting} {
		if l := psp.Lookup(ctx, aCharge(), end); l != (gateway.LookupFailed{Reason: reason}) {
			t.Errorf("lookup %+v", l)
		}
	}
	_, listErr := psp.List(ctx, gateway.ChargeObject, "canary-account", noon, "")
	_, eventErr := psp.ParseEvent([]byte("{}"))
	delivery, verifyErr := psp.VerifyEvent(http.Header{}, nil)
	for name, err := range map[string]error{
		"list": listErr, "event": eventErr, "verify": verifyErr,
	} {
		if err == nil || err.Error() != reason {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if delivery != (gateway.Delivery{}) {
		t.Errorf("a webhook is genuine: %+v", delivery)
	}
	psp.Close()
}

// It has no documents, so nothing follows from its traits but its name.
func TestProviderWithoutSettingsHasItsNameAndNoPromises(t *testing.T) {
	t.Parallel()
	traits := gateway.PSPs{}.Of("other").Traits()
	if traits.Name != "other" || traits.Proof != gateway.ProofByAbsence || traits.TwoSteps || traits.Refuses != nil {
		t.Fatalf("traits %+v", traits)
	}
}

func TestRefusalOfAWebhookIsItsReason(t *testing.T) {
	t.Parallel()
	err := error(&gateway.VerifyError{Err: gateway.ErrStale, Detail: "late", Challenge: "Scheme"})
	if !errors.Is(err, gateway.ErrStale) || err.Error() != gateway.ErrStale.Error() {
		t.Fatalf("error %v", err)
	}
	if refused, ok := errors.AsType[*gateway.VerifyError](err); !ok || refused.Detail != "late" {
		t.Fatalf("refused %+v", refused)
	}
}
