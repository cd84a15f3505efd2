package native

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// Whatever is taken for whole is what its records would be written as, with as many of them as the trailer says.
func FuzzSettlement(f *testing.F) {
	const line = "ch_1,charge,key-1,pay_1,,12000,USD,succeeded,2026-11-20T12:00:00.000001Z\r\n"
	for _, file := range []string{
		settlementHeader + "\r\ntotal,0,,,,,,,\r\n", settlementHeader + "\n" + line + "total,1,,,,,,,",
		settlementHeader + "\r\n" + line,
		settlementHeader + "\n" + strings.Replace(line, "pay_1", "\"a,\"\"\r\nb\x00\"", 1) + line +
			"total,2,,,,,,,\n\n", "total,0,,,,,,,",
		settlementHeader + "\n" + strings.Replace(line, "12000", "007", 1) + "total,1,,,,,,,\n" + line,
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		var records []gateway.Record
		collect := func(r gateway.Record) error {
			records = append(records, r)
			return nil
		}
		if err := newSettlement(strings.NewReader(file), "acme", "2026-11-20").read(collect); err != nil {
			return
		}
		first := records
		records = nil
		if err := newSettlement(strings.NewReader(written(t, first)), "acme", "2026-11-20").read(collect); err != nil {
			t.Fatalf("what was taken is not taken again: %v", err)
		}
		if len(first) != len(records) {
			t.Fatalf("%d records, and then %d", len(first), len(records))
		}
		for i, r := range first {
			if _, err := gateway.ParseRecord(r.Evidence()); r != records[i] || (err != nil && r.Executed()) {
				t.Fatalf("record %+v, and then %+v; evidence: %v", r, records[i], err)
			}
		}
	})
}

func written(t *testing.T, records []gateway.Record) string {
	t.Helper()
	var b strings.Builder
	w := csv.NewWriter(&b)
	write := func(fields ...string) {
		if err := w.Write(fields); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Split(settlementHeader, ",")...)
	for _, r := range records {
		write(r.ID, string(r.Object), r.Key, r.Reference, r.ChargeID, strconv.FormatInt(r.AmountMinor, 10), r.Currency,
			r.Status,
			r.Created.Format(time.RFC3339Nano))
	}
	write(trailerMark, strconv.Itoa(len(records)), "", "", "", "", "", "", "")
	w.Flush()
	return b.String()
}
