package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"payonce/lab/invariants"
)

// A whole run with two callers that most machines have. The page is left alone.
func TestCurlIsChargedOnceWhateverFails(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it pays under every fault")
	}
	for _, name := range []string{"curl", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	const page = "../../docs/callers.md"
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, progress strings.Builder
	err = run(t.Context(), []string{"-only", "curl.sh,curl-retry.sh"}, func(string) string { return "" }, &stdout,
		&progress)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), progress.String())
	}
	for _, line := range []string{
		"| **charged once** |" + strings.Repeat(" 2 of 2 |", len(faults)),
		"| **could go on with the same key** |" + strings.Repeat(" 2 of 2 |", len(faults)),
	} {
		if !strings.Contains(stdout.String(), line) {
			t.Errorf("there is no line %s in\n%s", line, stdout.String())
		}
	}
	// The one sends once, the other one again.
	if got := stdout.String(); !strings.Contains(got, "| unknown | unknown | failed 500 | failed 503 |") ||
		!strings.Contains(got, "| success (2) | success (2) | success (2) | success (2) |") {
		t.Errorf("the faults have not played out:\n%s", got)
	}
	if after, err := os.ReadFile(page); err != nil || string(after) != string(before) {
		t.Errorf("%v; a run of some callers has changed the page", err)
	}
}

func TestOutcomeIsReadFromStatusAndBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		told told
		want string
	}{
		{told{Status: 201, Body: `{"status":"succeeded"}`}, success},
		{told{Status: 202, Body: `{"status":"processing"}`}, processing},
		{told{Status: 409, Body: `{"status":409}`}, failed},
		{told{Status: 500, Body: `no JSON`}, failed},
		{told{Status: 200, Body: `{"status":503}ceeded"}`}, failed},
		{told{Error: "socket hang up"}, unknown},
	} {
		if got := c.told.outcome(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.told, got, c.want)
		}
	}
}

func paid(charges int, c cell) result {
	c.played, c.amount = true, 7
	r := result{name: "a server", rows: []*row{{caller{name: "a caller"}, []*cell{&c}}}}
	l := &invariants.Ledger{Charges: []invariants.Entry{{AmountCents: 8, Status: "succeeded"},
		{AmountCents: 7, Status: "declined"}}}
	for range charges {
		l.Charges = append(l.Charges, invariants.Entry{AmountCents: 7, Status: "succeeded"})
	}
	r.judge(l)
	return r
}

func TestLedgerDecides(t *testing.T) {
	t.Parallel()
	goesOn := cell{goesOn: true}
	toldSo := cell{told: told{Status: 201, Body: `{"status":"succeeded"}`}}
	for _, c := range []struct {
		result result
		passes bool
	}{
		{paid(1, goesOn), true},
		{paid(0, cell{silent: true}), true},
		{paid(2, goesOn), false},
		{paid(2, cell{silent: true}), false},
		{paid(0, goesOn), false},
		{paid(0, toldSo), false},
	} {
		if err := verdict([]result{c.result}); (err == nil) != c.passes {
			t.Errorf("%+v: %v", *c.result.rows[0].cells[0], err)
		}
	}
}

func TestCellSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]cell{
		"–":                                {played: false},
		"no answer":                        {silent: true, charges: 1},
		"failed 409 (3)":                   {told: told{Status: 409}, requests: 3, goesOn: true, charges: 1},
		"unknown, **charged 2 times**":     {requests: 1, goesOn: true, charges: 2},
		"unknown (2), **could not go on**": {requests: 2, charges: 1},
	} {
		c.played = c.charges > 0
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPageIsWrittenBetweenItsMarks(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("above\n<!-- a -->\nold\n<!-- /a -->\nbelow\n<!-- b -->\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := put(page, "a", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if want := "above\n<!-- a -->\n\nnew\n\n<!-- /a -->\nbelow\n<!-- b -->\n"; err != nil || string(got) != want {
		t.Errorf("%v; the page is %q, want %q", err, got, want)
	}
	for _, name := range []string{"b", "c"} {
		if put(page, name, "") == nil {
			t.Errorf("a page without both marks of %s was written", name)
		}
	}
}

// What is not there is named, and the others run. The one that runs leaves a child, which has to end with it.
func TestMissingCallerIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	from := t.TempDir()
	if err := os.Mkdir(filepath.Join(from, "others"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(from, "others", "here.sh")
	if err := os.WriteFile(script, []byte("sleep 300 & echo '{\"version\":\"7\"}'; wait"), 0o600); err != nil {
		t.Fatal(err)
	}
	ready, missing, err := install(t.Context(), []caller{{name: "gone", script: "others/gone.sh"},
		{name: "here", script: "others/here.sh", settings: true}}, from, t.TempDir())
	if err != nil || len(missing) != 1 || !strings.HasPrefix(missing[0], "gone: ") {
		t.Errorf("%v; missing: %q", err, missing)
	}
	if len(ready) != 2 || ready[0].version != "7" || ready[0].set || !ready[1].set {
		t.Errorf("ready: %+v", ready)
	}
}

func TestSilentCallerIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &process{said: make(chan string)}
		if _, err := p.hear(context.Background()); !errors.Is(err, errSilent) {
			t.Error(err)
		}
	})
}

func TestUnknownCallerIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := choose("curl.sh,nobody"); err == nil {
		t.Error("a caller that nobody has is run")
	}
	if some, err := choose("got"); err != nil || len(some) != 1 || some[0].script != "node/got" {
		t.Errorf("%v, %v", some, err)
	}
}
