package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"payonce/internal/app"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
)

const keysHelp = `Usage:
  api keys create --tenant acme [--scopes payments:write,payments:read] [--label TEXT]
  api keys create --operator [--scopes ops:read,ops:resolve] [--label TEXT]
      makes an API key and shows it once; the tenant is made when it is new
  api keys list
      lists the keys, without their secrets
  api keys expire --id ID [--after 24h]
      gives a key an end, now or after a time; to rotate, create the new key first and let the old one overlap

Where there are roles (api roles), this is for payonce_migrator: what serves the API cannot make itself a key.
`

func keys(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	var do func(context.Context, []string, io.Writer, *tenants.Registry) error
	switch command {
	case "create":
		do = createKey
	case "list":
		do = listKeys
	case "expire":
		do = expireKey
	case "--help", "-help", "-h", "help":
		_, err := fmt.Fprint(stdout, keysHelp)
		return err
	default:
		return errors.New("say keys create, keys list or keys expire; see api keys --help")
	}
	if slices.ContainsFunc(args, asksForHelp) {
		_, err := fmt.Fprint(stdout, keysHelp)
		return err
	}
	settings, err := load(getenv)
	if err != nil {
		return err
	}
	limits := postgres.DefaultLimits()
	limits.MaxConns = 2
	db, err := postgres.Open(ctx, settings.DatabaseURL, limits)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.AppliedVersion(ctx); err != nil {
		return fmt.Errorf("%w; if the database is new, run api migrate first", err)
	}
	return lacksRight(do(ctx, args, stdout, tenants.NewRegistry(db, app.NewID)))
}

func createKey(ctx context.Context, args []string, stdout io.Writer, registry *tenants.Registry) error {
	flags := flag.NewFlagSet("keys create", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	tenant := flags.String("tenant", "", "")
	operator := flags.Bool("operator", false, "")
	scopes := flags.String("scopes", "", "")
	label := flags.String("label", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if (*tenant == "") == !*operator {
		return errors.New("name either --tenant or --operator")
	}
	permissions := permissionsOf(*scopes, *operator)
	if !*operator {
		if err := registry.EnsureTenant(ctx, *tenant); err != nil {
			return err
		}
	}
	secret, err := tenants.NewSecret(rand.Reader)
	if err != nil {
		return err
	}
	key, err := registry.AddKey(ctx, *tenant, secret, *label, permissions)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n\nThis is the only time that the key is shown. Its id is %s.\n", secret, key.ID)
	return err
}

// parse refuses what is left over: in "--id X 24h" it would be the overlap that somebody meant to give.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w; see api keys --help", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("argument %q is not known; see api keys --help", flags.Arg(0))
	}
	return nil
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

func listKeys(ctx context.Context, args []string, stdout io.Writer, registry *tenants.Registry) error {
	if len(args) > 0 {
		return fmt.Errorf("argument %q is not known", args[0])
	}
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
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, owner, strings.Join(k.Permissions, ","), k.Created.UTC().Format(time.RFC3339), ends, k.Label)
	}
	return tw.Flush()
}

func expireKey(ctx context.Context, args []string, stdout io.Writer, registry *tenants.Registry) error {
	flags := flag.NewFlagSet("keys expire", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	id := flags.String("id", "", "")
	after := flags.Duration("after", 0, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	parsed, err := uuid.Parse(*id)
	if err != nil {
		return errors.New("--id must be an id of api keys list")
	}
	if *after < 0 {
		return errors.New("--after must not be negative")
	}
	at, err := registry.ExpireKey(ctx, parsed, *after)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The key ends at %s. Running servers notice within 5 seconds.\n", at.UTC().Format(time.RFC3339))
	return err
}
