package mockpsp

import (
	"bufio"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"
)

// settlementHeader names the columns. Of a charge, chargeId is empty. netCents is what the balance gains.
const settlementHeader = "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents," +
	"createdAt\r\n"

// getSettlement streams an account's movements of one UTC day, oldest first, as CSV (RFC 4180). A refund that came
// back has a second line, and so has a dispute that was won, each with the time at which the money has moved. Declined
// entries moved nothing and are not in it; stuck charges are, for another system makes such files. The last line is a
// trailer with the number of lines before it, the header not counted, so that a reader knows when something is missing.
// Today's file has what there is so far.
func (s *Server) getSettlement(c *call) (Reply, error) {
	date, ok := strings.CutSuffix(c.r.PathValue("file"), ".csv")
	if !ok {
		return noSuchEndpoint(c)
	}
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return Reply{}, invalid("the date must be written YYYY-MM-DD")
	}
	if date > s.config.Now().UTC().Format(time.DateOnly) {
		return Reply{}, apiError{http.StatusNotFound, "settlement_not_found", "the day has not begun, in UTC"}
	}
	records := ofDay(s.ledger.lines(), date)
	return Reply{
		Status: http.StatusOK,
		csv:    func(w io.Writer) { writeSettlement(w, records, c.account) },
	}, nil
}

// ofDay returns the lines of a day. They are in order of time, whose text begins with the day.
func ofDay(records []*record, date string) []*record {
	from := sort.Search(len(records), func(i int) bool { return records[i].at() >= date })
	length := sort.Search(len(records)-from, func(i int) bool {
		return !strings.HasPrefix(records[from+i].at(), date)
	})
	return records[from : from+length]
}

func writeSettlement(w io.Writer, records []*record, account string) {
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(settlementHeader)
	lines := 0
	for _, r := range records {
		e := &r.Entry
		if e.Account != account || !r.moves() {
			continue
		}
		writeCSV(out, e.ID, e.Object, e.IdempotencyKey, e.Reference, e.ChargeID,
			strconv.FormatInt(e.AmountCents, 10), e.Currency, e.Status, strconv.FormatInt(r.fee(), 10),
			strconv.FormatInt(r.net(), 10), r.at())
		lines++
	}
	writeCSV(out, "total", strconv.Itoa(lines), "", "", "", "", "", "", "", "", "")
	_ = out.Flush() // the reader may have gone; bufio writes nothing after the first error
}

// writeCSV writes one line. encoding/csv would change line ends inside of a quoted field.
func writeCSV(out *bufio.Writer, fields ...string) {
	for i, field := range fields {
		if strings.ContainsAny(field, "\",\r\n") {
			field = `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
		}
		if i > 0 {
			field = "," + field
		}
		_, _ = out.WriteString(field)
	}
	_, _ = out.WriteString("\r\n")
}
