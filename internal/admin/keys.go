package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"payonce/internal/cli"
	"payonce/internal/tenants"
)

const keysHelp = `Usage:
  api keys create --tenant acme [--scopes payments:write,payments:read] [--label TEXT]
  api keys create --operator [--scopes ops:read,ops:resolve] [--label TEXT]
      creates an API key and shows the key once. If the tenant does not exist, the command creates the tenant, with an
      account at the PSP that is named as the tenant is. With PSP=stripe it does not: see api tenants create
  api keys list
      lists the API keys, without their secrets
  api keys expire --id ID [--after 24h]
      ends an API key, now or after a time. To replace a key, create the new key first, and end the old key later

If the database has roles (api roles), run these commands as payonce_migrator. The role of the API cannot create API keys.
`

// Keys are the commands api keys.
func Keys(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	return administer(ctx, group{name: "api keys", help: keysHelp, choice: "create, list or expire",
		commands: map[string]func([]string) (action, error){
			"create": createKey, "list": withoutArgs("api keys", listKeys), "expire": expireKey,
		}}, args, getenv, stdout)
}

func createKey(args []string) (action, error) {
	flags := cli.NewFlags("api keys")
	tenant := flags.String("tenant", "", "")
	operator := flags.Bool("operator", false, "")
	scopes := flags.String("scopes", "", "")
	label := flags.String("label", "", "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return nil, err
	}
	if (*tenant == "") == !*operator {
		return nil, cli.Usagef("name either --tenant or --operator; see api keys --help")
	}
	permissions := permissionsOf(*scopes, *operator)
	return func(ctx context.Context, stdout io.Writer, registry registry) error {
		if !*operator && registry.psp == tenants.Native {
			err := registry.EnsureTenant(ctx, *tenant)
			if err != nil {
				return misused(err)
			}
		}
		secret, err := tenants.NewSecret(rand.Reader)
		if err != nil {
			return err
		}
		key, err := registry.AddKey(ctx, *tenant, secret, *label, permissions)
		if errors.Is(err, tenants.ErrNoTenant) {
			return fmt.Errorf("tenant %q: %w; first run api tenants create %[1]s --psp-account acct_…", *tenant, err)
		}
		if err != nil {
			return inDoubt(misused(err))
		}
		_, err = fmt.Fprintf(stdout, "%s\n\nThis is the only time that the key is shown. Its id is %s.\n", secret,
			key.ID)
		return err
	}, nil
}

// misused tells a value that can never be taken from a failure.
func misused(err error) error {
	if errors.Is(err, tenants.ErrMalformed) {
		return cli.Usagef("%w", err)
	}
	return err
}

// inDoubt tells how to be rid of a key that may have been made, and whose secret nobody has seen.
func inDoubt(err error) error {
	if doubt, ok := errors.AsType[*tenants.KeyInDoubtError](err); ok {
		return fmt.Errorf("%w; the key was not shown: end it by api keys expire --id %s, which says whether there is such a key, and create another",
			err, doubt.ID)
	}
	return err
}

func permissionsOf(scopes string, operator bool) []tenants.Permission {
	if scopes == "" && operator {
		return []tenants.Permission{tenants.OpsRead, tenants.OpsResolve}
	}
	if scopes == "" {
		return []tenants.Permission{tenants.PaymentsRead, tenants.PaymentsWrite}
	}
	var all []tenants.Permission
	for _, s := range strings.Split(scopes, ",") {
		all = append(all, tenants.Permission(strings.TrimSpace(s)))
	}
	return all
}

func listKeys(ctx context.Context, stdout io.Writer, registry registry) error {
	all, err := registry.Keys(ctx)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tTENANT\tSCOPES\tCREATED\tENDS\tLABEL")
	for _, k := range all {
		owner, ends := k.Tenant, "never"
		if owner == "" {
			owner = "(operator)"
		}
		if k.Expires != nil {
			ends = k.Expires.UTC().Format(time.RFC3339)
		}
		if k.Expired {
			ends += " (over)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, owner, strings.Join(k.Permissions, ","),
			k.Created.UTC().Format(time.RFC3339), ends, k.Label)
	}
	return tw.Flush()
}

func expireKey(args []string) (action, error) {
	flags := cli.NewFlags("api keys")
	id := flags.String("id", "", "")
	after := flags.Duration("after", 0, "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return nil, err
	}
	parsed, err := uuid.Parse(*id)
	if err != nil {
		return nil, cli.Usagef("--id must be an id of api keys list")
	}
	if *after < 0 {
		return nil, cli.Usagef("--after must not be negative")
	}
	return func(ctx context.Context, stdout io.Writer, registry registry) error {
		at, err := registry.ExpireKey(ctx, parsed, *after)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "The key ends at %s. Running servers apply this within 5 seconds.\n",
			at.UTC().Format(time.RFC3339))
		return err
	}, nil
}
