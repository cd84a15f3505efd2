package stripe

import (
	"testing"

	"payonce/internal/gateway"
)

// In test mode, a connected account can pay itself with a card that moves no money, under any metadata. Stripe sends
// such an event to the endpoint of the live mode, too.
func TestEventOfTheOtherModeMovesNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		secret, livemode string
		moves            bool
	}{
		{"sk_live_canary", "true", true}, {"sk_live_canary", "false", false},
		{"rk_live_canary", "true", true}, {"rk_live_canary", "false", false},
		{"sk_test_canary", "false", true}, {"sk_test_canary", "true", false},
		{"rk_test_canary", "false", true}, {"rk_test_canary", "true", false},
		// Such a secret does not tell its mode.
		{"sk_canary", "false", true}, {"sk_canary", "true", true}, {"canary", "true", true},
		{"sk_canary_live", "true", true}, {"sk_canary_live", "false", true},
	} {
		c, err := New(Config{URL: "http://psp.test", Secret: row.secret, Limits: gateway.DefaultLimits(), Now: today})
		if err != nil {
			t.Fatal(err)
		}
		for kind, object := range map[string]string{
			"payment_intent.succeeded": intentIs("succeeded"), "payment_intent.payment_failed": intentIs("declined"),
			"refund.updated": refundIs("succeeded"),
		} {
			body := replace(eventOf(kind, object), `"object":"event"`, `"object":"event","livemode":`+row.livemode)
			e, err := c.ParseEvent([]byte(body))
			if _, moves := e.(gateway.Moved); err != nil || moves != row.moves {
				t.Errorf("%s, livemode %s, by %s: %+v, %v", kind, row.livemode, row.secret, e, err)
			}
		}
		c.Close()
	}
}
