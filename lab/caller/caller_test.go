package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"payonce/lab/invariants"
)

// The child is this program, executed again.
func TestMain(m *testing.M) {
	if description := os.Getenv(childVariable); description != "" {
		os.Exit(child(description, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A whole run, with some hundred intents.
func TestClientIsChargedOnceAndTheUsualLoopIsNot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it pays through a storm")
	}
	environment := map[string]string{"SEED": "11", "QUICK": "1"}
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), nil, func(name string) string { return environment[name] }, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	lines := strings.Split(stdout.String(), "\n")
	if lines[0] != "caller seed=11" || !strings.HasPrefix(strings.TrimSpace(lines[2]), "client") ||
		!strings.Contains(lines[2], " 300 ") {
		t.Errorf("prints %s", stdout.String())
	}
}

// shopOf has one errand for each told outcome, with amounts from 1 on.
func shopOf(told ...string) *shop {
	s := &shop{errands: map[int]*errand{}, kills: map[boundary]int{sent: 1}, lives: 2}
	for i, what := range told {
		token := "pm_ok"
		if strings.HasPrefix(what, "!") {
			token, what = "pm_declined", what[1:]
		}
		s.errands[i] = &errand{index: i, token: token, told: what}
	}
	return s
}

func charged(indexes ...int) *invariants.Ledger {
	l := &invariants.Ledger{Charges: []invariants.Entry{
		{Account: "another", AmountCents: amount(0), Status: "succeeded"},
		{Account: "shop", AmountCents: amount(0), Status: "declined"},
	}}
	for _, index := range indexes {
		l.Charges = append(l.Charges,
			invariants.Entry{Account: "shop", AmountCents: amount(index), Status: "succeeded"})
	}
	return l
}

func TestLedgerDecides(t *testing.T) {
	t.Parallel()
	told := []string{"paid", "!declined", "failed", "paid", "paid", "failed", "declined", "!paid", "!declined"}
	// Order 3 was never charged, 4 and 8 twice, 5 although it was told failed, 6 and 7 likewise.
	b := tallied(perAttempt, "shop", []*shop{shopOf(told...)}, charged(0, 4, 4, 5, 6, 7, 8, 8))
	if b.intents != 9 || b.once != 2 || b.twice != 2 || b.notPaid != 1 || b.lost != 4 || len(b.wrong) != 7 ||
		b.kills[sent] != 1 || b.lives != 2 {
		t.Errorf("%+v", b)
	}
}

func TestVerdictAsksForBothHalves(t *testing.T) {
	t.Parallel()
	everywhere := map[boundary]int{}
	for _, where := range boundaries {
		everywhere[where] = 1
	}
	good := books{kind: withClient, intents: 2, once: 2, kills: everywhere}
	usual := []books{{kind: perAttempt, intents: 2, twice: 1}, {kind: inMemory, intents: 2, twice: 1}}
	if err := verdict(append([]books{good}, usual...)); err != nil {
		t.Error(err)
	}
	twice, spared := good, good
	twice.once, spared.kills = 1, map[boundary]int{made: 1, stored: 1, sent: 1, answered: 1}
	for name, all := range map[string][]books{
		"an intent that is not charged once": {twice, usual[0], usual[1]},
		"a boundary without a kill":          {spared, usual[0], usual[1]},
		"a storm without harm":               {good, usual[0], {kind: inMemory, intents: 2}},
	} {
		if verdict(all) == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment map[string]string
		n           int // 0: refused
	}{
		{map[string]string{}, 10_000},
		{map[string]string{"QUICK": "1"}, quickN},
		{map[string]string{"QUICK": "1", "N": "250", "SEED": "3"}, 250},
		{map[string]string{"N": "199"}, 0},
		{map[string]string{"N": "100001"}, 0},
		{map[string]string{"N": "many"}, 0},
	} {
		s, err := loadSettings(func(name string) string { return c.environment[name] })
		if (err == nil) != (c.n > 0) || err == nil && (s.N != c.n || s.Seed == 0) {
			t.Errorf("%v: %+v, %v", c.environment, s, err)
		}
	}
}
