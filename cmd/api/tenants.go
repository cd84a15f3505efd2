package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"payonce/internal/cli"
	"payonce/internal/tenants"
)

const tenantsHelp = `Usage:
  api tenants list
      lists the tenants, with their accounts at the PSP and their rate limits
  api tenants rate --tenant NAME --per-second N [--burst N]
      sets how many requests per second the tenant may send, and how many requests at once after a pause (--burst).
      By default, the burst is twice the number per second. A request above the limit gets 429. Each API process counts
      separately, and applies a change within 5 seconds

A new tenant may send 50 requests per second, and 100 requests at once. The command api keys create creates tenants.
`

func tenantsGroup() group {
	return group{name: "api tenants", help: tenantsHelp, choice: "list or rate",
		commands: map[string]func([]string) (action, error){
			"list": listTenants, "rate": limitTenant,
		}}
}

func listTenants(args []string) (action, error) {
	return printTenants, cli.Parse(cli.NewFlags("api tenants"), args, 0)
}

func printTenants(ctx context.Context, stdout io.Writer, registry *tenants.Registry) error {
	all, err := registry.Tenants(ctx)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TENANT\tPSP ACCOUNT\tPER SECOND\tBURST\tCREATED")
	for _, t := range all {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\n", t.ID, t.PSPAccount, t.RequestsPerSecond, t.Burst,
			t.Created.UTC().Format(time.RFC3339))
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
	if *burst == 0 {
		*burst = min(2**perSecond, tenants.MaxRate)
	}
	switch {
	case *tenant == "":
		return nil, cli.Usagef("name a tenant by --tenant; api tenants list shows them")
	case *perSecond < 1 || *perSecond > tenants.MaxRate:
		return nil, cli.Usagef("--per-second must be from 1 to %d", tenants.MaxRate)
	case *burst < 1 || *burst > tenants.MaxRate:
		return nil, cli.Usagef("--burst must be from 1 to %d", tenants.MaxRate)
	}
	return func(ctx context.Context, stdout io.Writer, registry *tenants.Registry) error {
		if err := registry.SetRate(ctx, *tenant, *perSecond, *burst); err != nil {
			return fmt.Errorf("tenant %q: %w; api tenants list shows them", *tenant, err)
		}
		_, err := fmt.Fprintf(stdout,
			"%s may send %d requests per second, and %d at once. Running servers apply this within 5 seconds.\n",
			*tenant, *perSecond, *burst)
		return err
	}, nil
}
