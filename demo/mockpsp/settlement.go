package mockpsp

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
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
// Today's file has what there is so far, and that of a day that has just ended may lack what is booked late.
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
	records := slices.DeleteFunc(slices.Clone(ofDay(s.ledger.lines(), date)), s.ledger.lacks)
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

// payOut pays all that an account has, and that no payout has paid: one payout for each currency.
func (s *Server) payOut(_ string, body []byte) (any, error) {
	var in struct {
		Account string `json:"account"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return nil, err
	}
	var currencies []string
	for _, r := range s.ledger.lines() {
		e := r.Entry
		if !r.dialect && e.Account == in.Account && r.moves() && !slices.Contains(currencies, e.Currency) {
			currencies = append(currencies, e.Currency)
		}
	}
	if len(currencies) == 0 && s.doors != nil {
		return s.doors.PayOut(in.Account)
	}
	paid := []entry{}
	for _, currency := range currencies {
		draft := draftBooked(ObjectPayout, in.Account, currency, 0)
		switch err := s.ledger.write(draft); {
		case err == nil:
			paid = append(paid, draft.Entry)
		case !errors.Is(err, errNothingToPay):
			return nil, err
		}
	}
	return paid, nil
}

// adjust takes money from an account's balance: a line of a type that few clients know.
func (s *Server) adjust(_ string, body []byte) (any, error) {
	var in struct {
		Account     string `json:"account"`
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return nil, err
	}
	if err := checkMoney(in.AmountCents, in.Currency, "of nothing"); err != nil {
		return nil, err
	}
	if in.Account == "" {
		return nil, invalid("account is required")
	}
	draft := draftBooked(ObjectAdjustment, in.Account, in.Currency, in.AmountCents)
	return draft.Entry, s.ledger.write(draft)
}

// draftBooked is a line that is about no charge.
func draftBooked(object, account, currency string, amountCents int64) *record {
	return &record{Fault: faultOK, Entry: entry{Object: object, Account: account, Currency: currency,
		AmountCents: amountCents, Status: StatusPaid}}
}

var errNothingToPay = apiError{http.StatusConflict, "nothing_to_pay", "the balance is not positive"}

// pay completes the draft of a payout, which pays the whole balance, or of an adjustment.
func (l *ledger) pay(draft *record) error {
	e := &draft.Entry
	if e.Object == ObjectPayout {
		e.AmountCents = l.balance[money{e.Account, e.Currency}]
		if e.AmountCents < 1 {
			return errNothingToPay
		}
	}
	e.ID, e.CreatedAt = newID(e.Object), l.nextCreatedAt().Format(timeLayout)
	l.count(draft)
	return nil
}

// getPayout lists the lines that a payout has paid, as CSV with a trailer, as in a settlement file: all of its currency
// since the payout before.
func (s *Server) getPayout(c *call) (Reply, error) {
	id, _ := strings.CutSuffix(c.r.PathValue("file"), ".csv")
	payout := s.ledger.find(ObjectPayout, c.account, id)
	if payout == nil {
		return Reply{}, apiError{http.StatusNotFound, "payout_not_found", "the account has no such payout"}
	}
	var paid []*record
	for _, r := range s.ledger.lines() {
		e := r.Entry
		if r.dialect || e.Account != c.account || e.Currency != payout.Entry.Currency || !r.moves() {
			continue
		}
		if e.ID == id {
			break
		}
		if paid = append(paid, r); e.Object == ObjectPayout {
			paid = nil
		}
	}
	return Reply{Status: http.StatusOK, csv: func(w io.Writer) { writePayout(w, paid) }}, nil
}

func writePayout(w io.Writer, paid []*record) {
	out := bufio.NewWriter(w)
	_, _ = out.WriteString("id,createdAt\r\n")
	for _, r := range paid {
		writeCSV(out, r.Entry.ID, r.at())
	}
	writeCSV(out, "total", strconv.Itoa(len(paid)))
	_ = out.Flush() // the reader may have gone
}
