package config

import (
	"testing"

	mockstripe "payonce/demo/mockpsp/stripe"
)

// A secret of the demo that these settings do not know would be taken as one that nobody else knows.
func TestDemoSecretsAreThoseOfTheMock(t *testing.T) {
	t.Parallel()
	if demoStripeSecret != mockstripe.DemoSecret || demoStripeWebhookSecret != mockstripe.DemoWebhookSecret {
		t.Errorf("they are %s and %s", demoStripeSecret, demoStripeWebhookSecret)
	}
}
