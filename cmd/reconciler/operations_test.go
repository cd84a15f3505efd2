package main

import "testing"

func TestCommandLineOfAnOperatorThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"statement x": `argument "x" is not known`, "statement --since 1": "flag provided but not defined: -since",
		"statement --date tomorrow": "want today, yesterday, or YYYY-MM-DD",
		"statement --date":          "flag needs an argument", "statement --format xml": "not table, csv or json",
		"scan acme": `argument "acme" is not known`, "scan --since 1h": "flag provided but not defined: -since",
		"key": "say key show", "key list": "say key show", "key show": "name the key",
		"key show --tenant acme": "name the key", "key show k": "name the tenant",
		"key show k l --tenant acme":                  `argument "l" is not known`,
		"key show k --tenant acme --operation refund": "--operation must be",
	} {
		wantUsageError(t, args, want)
	}
}

func TestFailureOfAnOperatorsCommandIsNoUsageError(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]int{
		"scan": 1, "key show k --tenant acme": 1,
		"statement": 2, // where 1 says that there are breaks
	} {
		wantNoDatabase(t, args, code)
	}
}

func TestHelpForOperatorsNeedsNoSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"help":         "reconciler timeline ",
		"statement -h": "Usage: reconciler statement", "scan --help": "Usage: reconciler scan",
		"key help": "Usage: reconciler key show", "key --help": "Usage: reconciler key show",
		"key show k --help": "Usage: reconciler key show",
	} {
		wantHelp(t, args, want)
	}
}
