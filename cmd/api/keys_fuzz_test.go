package main

import (
	"slices"
	"strings"
	"testing"

	"payonce/internal/cli"
	"payonce/internal/tenants"
)

// The arguments of a command line are separated by line ends here. Nothing that is left over is silently dropped, and a
// list of scopes holds what was written, without the space around it.
func FuzzKeysArgs(f *testing.F) {
	f.Add("--tenant\nacme\n--scopes\npayments:read, payments:write")
	f.Add("--operator\n--scopes=")
	f.Add("--after\n24h\nX")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		flags := cli.NewFlags("api keys")
		scopes, operator, after := flags.String("scopes", "", ""), flags.Bool("operator", false, ""),
			flags.Duration("after", 0, "")
		flags.String("tenant", "", "")
		if err := cli.Parse(flags, args, 0); err != nil {
			if !strings.HasSuffix(err.Error(), "; see api keys --help") {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if flags.NArg() > 0 {
			t.Fatalf("%q is taken, and %q are dropped", args, flags.Args())
		}
		if *after != 0 && !strings.Contains(line, "after") {
			t.Fatalf("%q ends after %s", args, *after)
		}
		permissions := permissionsOf(*scopes, *operator)
		if *scopes == "" {
			ours := []tenants.Permission{tenants.PaymentsRead, tenants.PaymentsWrite}
			if *operator {
				ours = []tenants.Permission{tenants.OpsRead, tenants.OpsResolve}
			}
			if !slices.Equal(permissions, ours) {
				t.Fatalf("by default %q", permissions)
			}
			return
		}
		if len(permissions) != strings.Count(*scopes, ",")+1 {
			t.Fatalf("%q are %q", *scopes, permissions)
		}
		for _, p := range permissions {
			if !strings.Contains(*scopes, string(p)) || strings.TrimSpace(string(p)) != string(p) {
				t.Fatalf("%q of %q", p, *scopes)
			}
		}
	})
}
