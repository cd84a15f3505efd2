package native

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// Whatever is taken for whole is what its records would be written as, with as many of them as the trailer says.
func FuzzSettlement(f *testing.F) {
	const line = "ch_1,charge,key-1,pay_1,,12000,USD,succeeded,0,1,2026-11-20T12:00:00.000001Z\r\n"
	for _, file := range []string{
		settlementHeader + "\r\ntotal,0,,,,,,,,,\r\n", settlementHeader + "\n" + line + "total,1,,,,,,,,,",
		settlementHeader + "\r\n" + line,
		settlementHeader + "\n" + strings.Replace(line, "pay_1", "\"a,\"\"\r\nb\x00\"", 1) + line +
			"total,2,,,,,,,,,\n\n", "total,0,,,,,,,,,",
		settlementHeader + "\n" + strings.Replace(line, "12000", "007", 1) + "total,1,,,,,,,,,\n" + line,
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		var lines []gateway.Line
		collect := func(l gateway.Line) error {
			lines = append(lines, l)
			return nil
		}
		if err := newSettlement(strings.NewReader(file), "acme", "2026-11-20").read(collect); err != nil {
			return
		}
		first := lines
		lines = nil
		if err := newSettlement(strings.NewReader(written(t, first)), "acme", "2026-11-20").read(collect); err != nil {
			t.Fatalf("what was taken is not taken again: %v", err)
		}
		if len(first) != len(lines) {
			t.Fatalf("%d lines, and then %d", len(first), len(lines))
		}
		for i, l := range first {
			if _, err := gateway.ParseRecord(l.Evidence()); l != lines[i] || (err != nil && l.Executed()) {
				t.Fatalf("line %+v, and then %+v; evidence: %v", l, lines[i], err)
			}
		}
	})
}

func written(t *testing.T, lines []gateway.Line) string {
	t.Helper()
	var b strings.Builder
	w := csv.NewWriter(&b)
	write := func(fields ...string) {
		if err := w.Write(fields); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Split(settlementHeader, ",")...)
	for _, l := range lines {
		_, at, _ := strings.Cut(l.LineID, "@")
		write(l.ID, l.Type, l.Key, l.Reference, l.ChargeID, strconv.FormatInt(l.AmountMinor, 10), l.BalanceCurrency,
			l.Status, strconv.FormatInt(l.FeeMinor, 10), strconv.FormatInt(l.NetMinor, 10), at)
	}
	write(trailerMark, strconv.Itoa(len(lines)), "", "", "", "", "", "", "", "", "")
	w.Flush()
	return b.String()
}
