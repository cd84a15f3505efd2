package admin

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/tenants"
)

const tenantsHelp = `Usage:
  api tenants create NAME [--psp native|stripe] [--psp-account ACCOUNT] [--per-second N] [--burst N]
      creates a tenant at a payment service provider, with an account there. The name, the provider and the account never
      change: payments without an answer are looked up there. By default, the provider is the setting PSP, and the
      account at the provider native is named as the tenant is. At Stripe, name a connected account by its id (acct_…),
      and the account that STRIPE_SECRET belongs to by the word default: as acct_…, all its events would be refused as
      those of another account. The same command may run again
  api tenants list
      lists the tenants, with their providers, their accounts there, their rate limits, and whether they have switched on
      the feed of events or endpoints
  api tenants rate --tenant NAME --per-second N [--burst N]
      sets how many requests per second the tenant may send, and how many requests at once after a pause (--burst).
      By default, the burst is twice the number per second. A request above the limit gets 429. Each API process counts
      separately, and applies a change within 5 seconds

A new tenant may send 50 requests per second, and 100 requests at once. While the setting PSP is native, the command
api keys create creates tenants, too.
`

// Tenants are the commands api tenants.
func Tenants(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	return administer(ctx, group{name: "api tenants", help: tenantsHelp, choice: "create, list or rate",
		commands: map[string]func([]string) (action, error){
			"create": createTenant, "list": withoutArgs("api tenants", listTenants), "rate": limitTenant,
		}}, args, getenv, stdout)
}

func listTenants(ctx context.Context, stdout io.Writer, registry registry) error {
	all, err := registry.Tenants(ctx)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TENANT\tPSP\tPSP ACCOUNT\tPER SECOND\tBURST\tEVENTS\tCREATED")
	for _, t := range all {
		events := "none"
		switch {
		case t.Feed:
			events = "feed"
		case t.Tells:
			events = "endpoints"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", t.ID, t.PSP, t.PSPAccount, t.RequestsPerSecond, t.Burst,
			events, t.Created.UTC().Format(time.RFC3339))
	}
	return tw.Flush()
}

func limitTenant(args []string) (action, error) {
	flags := cli.NewFlags("api tenants")
	tenant := flags.String("tenant", "", "")
	perSecond := flags.Int("per-second", 0, "")
	burst := flags.Int("burst", 0, "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return nil, err
	}
	if *tenant == "" {
		return nil, cli.Usagef("name a tenant by --tenant; api tenants list shows them")
	}
	if err := checkRate(*perSecond, burst); err != nil {
		return nil, err
	}
	return func(ctx context.Context, stdout io.Writer, registry registry) error {
		if err := registry.SetRate(ctx, *tenant, *perSecond, *burst); err != nil {
			return fmt.Errorf("tenant %q: %w; api tenants list shows them", *tenant, err)
		}
		_, err := fmt.Fprintf(stdout,
			"%s may send %d requests per second, and %d at once. Running servers apply this within 5 seconds.\n",
			*tenant, *perSecond, *burst)
		return err
	}, nil
}

// checkRate fills in a burst that is not given, and refuses what is no rate limit.
func checkRate(perSecond int, burst *int) error {
	if *burst == 0 {
		*burst = min(2*perSecond, tenants.MaxRate)
	}
	switch {
	case perSecond < 1 || perSecond > tenants.MaxRate:
		return cli.Usagef("--per-second must be from 1 to %d", tenants.MaxRate)
	case *burst < 1 || *burst > tenants.MaxRate:
		return cli.Usagef("--burst must be from 1 to %d", tenants.MaxRate)
	}
	return nil
}

func createTenant(args []string) (action, error) {
	flags := cli.NewFlags("api tenants")
	psp := notEmpty(flags, "psp")
	account := notEmpty(flags, "psp-account")
	perSecond := flags.Int("per-second", tenants.DefaultRate, "")
	burst := flags.Int("burst", 0, "")
	if err := cli.Parse(flags, args, 1); err != nil {
		return nil, err
	}
	if flags.Arg(0) == "" {
		return nil, cli.Usagef("name the tenant: api tenants create NAME; see api tenants --help")
	}
	if err := checkRate(*perSecond, burst); err != nil {
		return nil, err
	}
	wanted := tenants.Tenant{
		ID: flags.Arg(0), PSP: tenants.PSP(*psp), PSPAccount: *account, RequestsPerSecond: *perSecond, Burst: *burst,
	}
	// The provider may be left to the setting PSP, which is read later.
	if *psp != "" {
		if _, err := complete(wanted, ""); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, stdout io.Writer, registry registry) error {
		n, err := complete(wanted, registry.psp)
		if err != nil {
			return err
		}
		if err := registry.Create(ctx, n); err != nil {
			return misused(err)
		}
		needs := ""
		if n.PSP == tenants.Stripe {
			needs = " The API and the reconciler need STRIPE_SECRET."
		}
		_, err = fmt.Fprintf(stdout, "%s is at provider %s, with account %s. It may send %d requests per second, and %d "+
			"at once.%s Next: api keys create --tenant %[1]s\n",
			n.ID, n.PSP, n.PSPAccount, n.RequestsPerSecond, n.Burst, needs)
		return err
	}, nil
}

// notEmpty is a flag that may be left out, but has a value if it is there: the variable of a shell that is not set must
// not choose a provider for good.
func notEmpty(flags *flag.FlagSet, name string) *string {
	var value string
	flags.Func(name, "", func(v string) error {
		if value = v; v == "" {
			return errors.New("it must not be empty")
		}
		return nil
	})
	return &value
}

// ownAccount is the account that the secret key of Stripe belongs to. Requests for it name no account.
const ownAccount = "default"

// complete fills in the provider and the account that are not given, and refuses what cannot be.
func complete(n tenants.Tenant, provider tenants.PSP) (tenants.Tenant, error) {
	n.PSP = cmp.Or(n.PSP, provider)
	if err := config.CheckProvider(string(n.PSP)); err != nil {
		return n, cli.Usagef("the provider is %w", err)
	}
	if n.PSP != tenants.Stripe {
		n.PSPAccount = cmp.Or(n.PSPAccount, n.ID)
	}
	if n.PSP == tenants.Stripe && n.PSPAccount == "" {
		return n, cli.Usagef("name the tenant's account at Stripe by --psp-account: acct_… of a connected account, or " +
			ownAccount + ", which is the account of the secret key itself")
	}
	if n.PSP == tenants.Stripe && n.PSPAccount != ownAccount && !strings.HasPrefix(n.PSPAccount, "acct_") {
		return n, cli.Usagef("an account at Stripe begins with acct_; the account of the secret key itself is called " +
			ownAccount)
	}
	return n, nil
}
