package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/reconcile"
	"payonce/internal/webhooks"
)

// nativePath is the last part of the path of the webhooks of the native dialect. It was the only one at first.
const nativePath = "psp"

// newPSPs makes the providers that this process has settings for. No other package knows which dialects there are.
func (p *parts) newPSPs(ctx context.Context, c config.API) (gateway.PSPs, error) {
	psps := gateway.PSPs{}
	own, err := native.New(c.PSPURL, c.PSPSecret, limitsOf(c.Shared), c.WebhookSecrets, time.Now)
	if err != nil {
		return nil, err
	}
	if c.PSPSecret != "" || c.PSP == config.NativePSP {
		psps[native.Name] = gateway.Observed(own, time.Now, p.metrics.PSPRequest)
	}
	more, operations := any(p).(extendsParts)
	if operations {
		err = more.addDialects(ctx, psps, c)
	}
	return psps, cmp.Or(err, checkHonoured(c.Shared, psps, operations))
}

// checkHonoured refuses a PSP of new tenants that was not made, and traces that nothing sends.
func checkHonoured(c config.Shared, made gateway.PSPs, operations bool) error {
	if _, ok := made[c.PSP]; !ok {
		return fmt.Errorf("PSP is %s, and this program has no secret for it, or was built without it", c.PSP)
	}
	if c.TraceEndpoint != "" && !operations {
		return errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is set, and this program was built without traces")
	}
	return nil
}

func limitsOf(c config.Shared) gateway.Limits {
	limits := gateway.DefaultLimits()
	limits.Dial, limits.Total, limits.InFlight = c.PSPDial, c.PSPTotal, c.PSPInFlight
	limits.Held = c.Held
	limits.BreakerFailures, limits.BreakerOpen = c.PSPBreakerFailures, c.PSPBreakerOpen
	return limits
}

// receivers take the webhooks of each PSP in, by the last part of their path. One is nil where no secret is configured.
func (a *API) receivers() map[string]*webhooks.Receiver {
	all := map[string]*webhooks.Receiver{nativePath: a.receiver(native.Name, a.settings.WebhookSecrets)}
	if more, ok := any(a).(extendsAPI); ok {
		more.addReceivers(all)
	}
	return all
}

func (a *API) receiver(name string, secrets []string) *webhooks.Receiver {
	if psp, ok := a.psps[name]; ok && len(secrets) > 0 {
		return webhooks.NewReceiver(psp, webhooks.New(a.db, reconcile.WebhookJob()))
	}
	return nil
}
