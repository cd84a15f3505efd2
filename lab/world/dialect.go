package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	stripemock "payonce/demo/mockpsp/stripe"
	"payonce/internal/tenants"
	"payonce/lab/invariants"
	"payonce/test/httpproxy"
)

// Names of calls at the proxies. They say what a call is for, in each dialect:
//
//	            native                          stripe
//	Create                                      makes an intent, which moves no money
//	Charge      POST /v1/charges                confirms an intent
//	Refund      POST /v1/charges/{id}/refunds   POST /v1/refunds
//	Lookup      by key                          reads an intent, or the refunds of one
//	Cancel                                      cancels an intent
//	List        charges or refunds              charges or refunds
//	Settlement  the file of a day               the balance transactions of a day
const (
	Create     = "create"
	Charge     = "charge"
	Refund     = "refund"
	Lookup     = "lookup"
	Cancel     = "cancel"
	List       = "list"
	Settlement = "settlement"
	Webhook    = "webhook" // at the Front
)

// AccountOf is the account of a tenant at a provider, as this package makes tenants.
func AccountOf(psp tenants.PSP, tenant string) string {
	if psp == tenants.Stripe {
		return "acct_" + tenant
	}
	return tenant
}

// psp is the provider that all tenants of the world are at.
func (p Plan) psp() tenants.PSP { return cmp.Or(p.PSP, tenants.Native) }

// moveTenants has the tenants of the template be at the provider of the plan, with an account there. A trigger forbids
// this for good reason: keys would be looked up elsewhere. Here, no key exists yet, so the superuser goes past it.
func (w *World) moveTenants(ctx context.Context) error {
	psp := w.plan.psp()
	if psp == tenants.Native {
		return nil
	}
	if !w.site.count.Can(ChangeProvider) {
		return errors.New("the worlds of several servers are at the native provider")
	}
	err := pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE tenants SET psp = $1, psp_account = $2 || id", string(psp), AccountOf(psp, ""))
		return err
	})
	if err != nil {
		return fmt.Errorf("move the tenants to %s: %w", psp, err)
	}
	return nil
}

// dialectOfPSP starts the mock PSP with its second dialect, and remembers the address of the one that is spoken.
func (w *World) dialectOfPSP(native string, settings map[string]string) error {
	w.wire = native
	if w.plan.psp() == tenants.Native {
		return nil
	}
	address, err := w.address()
	if err != nil {
		return err
	}
	w.wire = address
	settings["MOCKPSP_STRIPE_ADDR"], settings["MOCKPSP_STRIPE_SECRET"] = address, stripemock.DemoSecret
	settings["MOCKPSP_STRIPE_ACTION_DELAY"] = PSPAsksFor.String()
	if !w.plan.NoWebhooks {
		settings["MOCKPSP_STRIPE_WEBHOOK_URL"] = w.Front.URL() + "/webhooks/stripe"
		settings["MOCKPSP_STRIPE_WEBHOOK_SECRETS"] = stripemock.DemoWebhookSecret
	}
	return nil
}

// provider are the settings by which a program knows the PSP at a URL. In a world at Stripe, the native dialect leads
// there too: a program that speaks it is heard, and refused.
func (w *World) provider(url string) map[string]string {
	settings := map[string]string{"PSP_URL": url, "PSP_SECRET": PSPSecret}
	if w.plan.psp() == tenants.Stripe {
		settings["PSP"], settings["STRIPE_URL"] = string(tenants.Stripe), url
		settings["STRIPE_SECRET"] = stripemock.DemoSecret
		settings["STRIPE_WEBHOOK_SECRETS"] = stripemock.DemoWebhookSecret
	}
	return settings
}

// Stripe is where the PSP speaks that dialect, past all proxies. In a native world it is nowhere.
func (w *World) Stripe() invariants.Stripe {
	if w.plan.psp() != tenants.Stripe {
		return invariants.Stripe{}
	}
	return invariants.Stripe{URL: "http://" + w.wire, Secret: stripemock.DemoSecret}
}

// Account is a tenant's account at the provider of the world.
func (w *World) Account(tenant string) string { return AccountOf(w.plan.psp(), tenant) }

// Watch has a call looked at that has arrived on its way to the PSP: was what it moves reserved?
func (p Plan) Watch(ctx context.Context, o *invariants.Reservations, c httpproxy.Call) {
	switch {
	case !slices.Contains([]string{Create, Charge, Refund}, c.Name):
	case p.psp() == tenants.Stripe:
		o.ArrivedAtStripe(ctx, c.Path, c.Header, c.Body)
	default:
		o.Arrived(ctx, c.Header.Get("PSP-Account"), c.Header.Get("Idempotency-Key"), c.Body)
	}
}

// nameOfCall names a call of the dialect that is spoken.
func (w *World) nameOfCall(r *http.Request) string {
	if w.plan.psp() == tenants.Stripe {
		return nameOfStripeCall(r)
	}
	return nameOfNativeCall(r)
}

func nameOfNativeCall(r *http.Request) string {
	switch post := r.Method == http.MethodPost; {
	case post && r.URL.Path == "/v1/charges":
		return Charge
	case post && strings.HasSuffix(r.URL.Path, "/refunds"):
		return Refund
	case r.URL.Query().Has("idempotencyKey"):
		return Lookup
	case strings.HasPrefix(r.URL.Path, "/v1/settlements/"), strings.HasPrefix(r.URL.Path, "/v1/payouts/"):
		return Settlement
	case r.URL.Path == "/v1/charges" || r.URL.Path == "/v1/refunds":
		return List
	}
	return ""
}

func nameOfStripeCall(r *http.Request) string {
	const intents = "/v1/payment_intents"
	switch post, path := r.Method == http.MethodPost, r.URL.Path; {
	case post && path == intents:
		return Create
	case post && strings.HasSuffix(path, "/confirm"):
		return Charge
	case post && strings.HasSuffix(path, "/cancel"):
		return Cancel
	case post && path == "/v1/refunds":
		return Refund
	case strings.HasPrefix(path, intents+"/"), r.URL.Query().Has("payment_intent"):
		return Lookup
	case path == "/v1/charges" || path == "/v1/refunds":
		return List
	case path == "/v1/balance_transactions":
		return Settlement
	}
	return ""
}
