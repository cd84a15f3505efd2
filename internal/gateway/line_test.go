package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

func TestOddLineThatMovesNoCustomersMoneyIsAccepted(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	usual := gateway.Line{Record: gateway.Record{ID: "adj_1", ChargeID: "ch_1", Account: "acct", Created: at},
		LineID: "adj_1@x", Type: "adjustment", BalanceCurrency: "USD"}
	edit := func(f func(*gateway.Line)) gateway.Line {
		l := usual
		f(&l)
		return l
	}
	typed := func(s string) gateway.Line { return edit(func(l *gateway.Line) { l.Type = s }) }
	for name, c := range map[string]struct{ line, want gateway.Line }{
		"spaces":             {typed("a new type"), typed("a new type")},
		"another script":     {typed("조정"), typed("조정")},
		"control characters": {typed("a\x00b\n\x1b\u202e\xff"), typed("a\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFD")},
		"too long":           {typed(strings.Repeat("조", 90)), typed(strings.Repeat("조", 85))},
		"cut in a character": {typed("ab" + strings.Repeat("조", 90)), typed("ab" + strings.Repeat("조", 84))},
		"no type":            {typed(""), typed("none")},
		"another currency": {edit(func(l *gateway.Line) { l.BalanceCurrency = "USDC" }),
			edit(func(l *gateway.Line) { l.BalanceCurrency = "USDC" })},
		"about something malformed": {edit(func(l *gateway.Line) { l.ID, l.ChargeID = "adj 1", "ch 1" }),
			edit(func(l *gateway.Line) { l.ID, l.ChargeID = "", "" })},
	} {
		got, err := c.line.Accept()
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if again, err := got.Accept(); err != nil || again != got {
			t.Errorf("%s: accepted again as %+v, %v", name, again, err)
		}
	}
	for name, l := range map[string]gateway.Line{
		"no id":       edit(func(l *gateway.Line) { l.LineID = "" }),
		"no currency": edit(func(l *gateway.Line) { l.BalanceCurrency = "" }),
		"no code":     edit(func(l *gateway.Line) { l.BalanceCurrency = "US D" }),
	} {
		if got, err := l.Accept(); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}

func TestLineAboutAMovementIsReadStrictly(t *testing.T) {
	t.Parallel()
	usual := gateway.Line{Record: gateway.Record{ID: "ch_1", Object: gateway.ChargeObject, Account: "acct",
		AmountMinor: 1, Currency: "USD", Status: gateway.StatusSucceeded,
		Created: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, LineID: "l_1", Type: "charge", BalanceCurrency: "USD"}
	if _, err := usual.Accept(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*gateway.Line){
		"a type with spaces": func(l *gateway.Line) { l.Type = "a charge" },
		"no type":            func(l *gateway.Line) { l.Type = "" },
		"another currency":   func(l *gateway.Line) { l.BalanceCurrency = "USDC" },
		"a malformed id":     func(l *gateway.Line) { l.ID = "ch 1" },
	} {
		l := usual
		edit(&l)
		if got, err := l.Accept(); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}
