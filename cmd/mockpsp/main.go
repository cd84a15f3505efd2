// Command mockpsp serves the mock payment provider: its API under /v1, its back doors under /_ledger, /_faults, /_keys,
// /_refunds, /_disputes, /_requests and /_webhooks, and a page at / for people. It sends its webhooks to
// MOCKPSP_WEBHOOK_URL. With a MOCKPSP_STRIPE_ADDR, it speaks the dialect of Stripe there, over the same ledger.
//
// It is wiring only: it owns the settings, the port and the order of stopping. What a provider does, and how it fails,
// is in demo/mockpsp. It ends cleanly at Ctrl-C, also while requests are held that never get an answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/internal/app"
	"payonce/internal/cli"
)

func main() {
	cli.Main("mockpsp", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout) })
}

// run serves until ctx ends, or does what its arguments say. A clean end returns nil.
func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	set, err := readSettings(getenv)
	switch command := strings.Join(args, " "); {
	case command == "help" || cli.AsksForHelp(args):
		return printHelp(stdout)
	case command == "version" || command == "--version" || command == "-version":
		return cli.PrintVersion(stdout, "mockpsp")
	case command != "" && command != "healthcheck":
		return cli.Usagef("argument %q is not known; see mockpsp --help", command)
	case err != nil:
		return err
	case command == "healthcheck":
		return healthcheck(ctx, set.Addr)
	}
	log := slog.New(slog.NewTextHandler(stdout, nil))
	config := set.pspConfig(log)
	if err := config.Check(); err != nil {
		return fmt.Errorf("check settings: %w; see --help", err)
	}

	// The port first: a process that cannot have the port must not open the ledger.
	opened, err := app.Listen(ctx, set.addresses()...)
	if err != nil {
		return err
	}
	for _, l := range opened {
		defer func() { _ = l.Close() }() // the servers close theirs, if they begin
	}
	psp, err := mockpsp.New(config)
	if err != nil {
		return fmt.Errorf("start with MOCKPSP_LEDGER=%s: %w", set.Ledger, err)
	}
	var dialect *stripe.Server
	if len(opened) > 1 {
		if dialect, err = stripe.New(psp, set.stripeConfig()); err != nil {
			return errors.Join(fmt.Errorf("start the Stripe dialect: %w; see --help", err), psp.Close())
		}
		log.Info("the Stripe dialect is ready", "address", opened[1].Addr().String())
	}
	log.Info("mock PSP is ready", "url", "http://"+opened[0].Addr().String(), "ledger", set.Ledger, "seed", set.Seed)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return psp.Serve(ctx, opened[0]) })
	if dialect != nil {
		group.Go(func() error { return dialect.Serve(ctx, opened[1]) })
	}
	return group.Wait()
}

// healthcheck is for containers whose image holds no shell and no curl. An address of all interfaces is fine: net takes
// it for the local machine.
func healthcheck(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/_faults", http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the mock PSP answers %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// addresses are those to listen on: the PSP's own and, unless it is off, that of the Stripe dialect.
func (s settings) addresses() []app.Address {
	addresses := []app.Address{{Setting: "MOCKPSP_ADDR", Addr: s.Addr}}
	if s.StripeAddr != "" {
		addresses = append(addresses, app.Address{Setting: "MOCKPSP_STRIPE_ADDR", Addr: s.StripeAddr})
	}
	return addresses
}

// stripeConfig turns the settings into the config of the Stripe dialect.
func (s settings) stripeConfig() stripe.Config {
	config := stripe.DefaultConfig()
	config.Secret, config.ActionDelay, config.APIVersion = s.StripeSecret, s.StripeActionDelay, s.StripeAPIVersion
	config.WebhookURL, config.WebhookSecrets = s.StripeWebhookURL, s.StripeWebhookSecrets
	return config
}

// pspConfig turns the settings into the PSP's config.
func (s settings) pspConfig(log *slog.Logger) mockpsp.Config {
	config := mockpsp.DefaultConfig()
	config.LedgerPath = s.Ledger
	config.Secret = s.Secret
	config.Rand = rand.New(rand.NewPCG(s.Seed, s.Seed))
	config.Log = log
	config.SlowDelay, config.HangLimit, config.LateDelay = s.SlowDelay, s.HangLimit, s.LateDelay
	config.WebhookURL, config.WebhookSecret = s.WebhookURL, s.WebhookSecret
	config.WebhookDelay, config.WebhookSchedule = s.WebhookDelay, s.WebhookSchedule
	return config
}
