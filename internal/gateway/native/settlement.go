package native

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"payonce/internal/gateway"
)

const (
	settlementHeader = "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents," +
		"createdAt"
	payoutHeader = "id,createdAt"
	trailerMark  = "total" // in the column of the id

	// maxLine bounds a record of the file, in bytes, even if a quoted field spreads it over several lines.
	maxLine = 64 << 10
	// readAhead is how much a csv.Reader may have read of the following lines, in bytes.
	readAhead = 4 << 10

	longestID = 255 // of an id that can be stored, see gateway.IsID
)

var (
	amountForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)
	signedForm = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,18})$`)
)

var (
	errEnd       = errors.New("ends without its trailer")
	errMalformed = errors.New("malformed")
)

// settlement reads a file of the PSP (RFC 4180): that of a day, or of a payout. The trailer has the number of lines, so
// a file that was cut off is noticed.
type settlement struct {
	lines        *csv.Reader
	allowance    *io.LimitedReader // bounds one line: a csv.Reader keeps a line of any length in memory
	account, day string
	line         int       // how many records were read, with the header; a record may span several lines
	last         time.Time // when the last record was created
}

func newSettlement(file io.Reader, account, day string) *settlement {
	s := &settlement{allowance: &io.LimitedReader{R: file}, account: account, day: day}
	s.lines = csv.NewReader(s.allowance)
	s.lines.ReuseRecord = true
	return s
}

// read calls each with every line of a day.
func (s *settlement) read(each func(gateway.Line) error) error {
	return s.readAll(settlementHeader, func(fields []string) error {
		l, err := s.lineOf(fields)
		if err != nil {
			return err
		}
		s.last = l.Created
		if err := each(l); err != nil {
			return fmt.Errorf("take record: %w", err)
		}
		return nil
	})
}

// readAll calls each with the fields of every line. Its errors name a line by its number, never by its content.
func (s *settlement) readAll(columns string, each func(fields []string) error) error {
	s.lines.FieldsPerRecord = strings.Count(columns, ",") + 1
	header, err := s.next()
	if err != nil {
		return err
	}
	if strings.Join(header, ",") != columns {
		return s.at(errors.New("another header"))
	}
	for {
		fields, err := s.next()
		if err != nil {
			return err
		}
		if fields[0] == trailerMark {
			return s.end(fields)
		}
		if err := each(fields); err != nil {
			return s.at(err)
		}
	}
}

// next returns the next line. It fails with errEnd if there is none.
func (s *settlement) next() ([]string, error) {
	s.line++
	began := s.lines.InputOffset()
	s.allowance.N = maxLine + readAhead
	fields, err := s.lines.Read()
	switch {
	case s.lines.InputOffset()-began > maxLine:
		return nil, s.at(fmt.Errorf("longer than %d bytes", maxLine))
	case errors.Is(err, io.EOF):
		return nil, errEnd
	case errors.As(err, new(*csv.ParseError)):
		return nil, s.at(errMalformed)
	case err != nil:
		return nil, s.at(err)
	}
	return fields, nil
}

// lineOf reads a line. Its object is its type: of one that we do not know, only the sum counts.
func (s *settlement) lineOf(f []string) (gateway.Line, error) {
	for _, field := range f {
		if !utf8.ValidString(field) {
			return gateway.Line{}, errMalformed
		}
	}
	object, status := gateway.Object(f[1]), cmp.Or(f[7], "none") // A movement without a status is malformed.
	l := gateway.Line{LineID: lineID(f[0], f[10]), Type: f[1], BalanceCurrency: f[6], Record: gateway.Record{
		ID: f[0], Object: object, Account: s.account, Key: f[2], Reference: f[3], ChargeID: f[4],
		AmountMinor: -1, Currency: f[6], Status: recordStatus(object, status),
	}}
	if object == gateway.DisputeObject {
		l.Dispute.Status = gateway.DisputeStatus(status)
	}
	if amount, err := strconv.ParseInt(f[5], 10, 64); err == nil && amountForm.MatchString(f[5]) {
		l.AmountMinor = amount
	}
	// What cannot be read stays zero, which Accept refuses.
	l.Created, _ = gateway.ParseTime(f[10])
	fee, feeErr := signed(f[8])
	net, netErr := signed(f[9])
	l.FeeMinor, l.NetMinor = fee, net
	accepted, err := l.Accept()
	switch {
	case feeErr != nil, netErr != nil:
		return gateway.Line{}, errors.New("record with a malformed feeCents or netCents")
	case err != nil:
		return gateway.Line{}, err
	case accepted.Created.Format(time.DateOnly) != s.day:
		return gateway.Line{}, errors.New("record of another day")
	case accepted.Created.Before(s.last):
		return gateway.Line{}, errors.New("not oldest first")
	}
	return accepted, nil
}

// lineID names a line. The PSP has no ids for lines, and a movement may have several: when it is made, and when its
// money comes back. A name that is too long for an id is hashed.
func lineID(id, createdAt string) string { return gateway.FitKey(id+"@"+createdAt, longestID) }

// signed reads an amount with a sign.
func signed(text string) (int64, error) {
	if !signedForm.MatchString(text) {
		return 0, errMalformed
	}
	return strconv.ParseInt(text, 10, 64)
}

// end checks the trailer, and that nothing follows the trailer.
func (s *settlement) end(trailer []string) error {
	empty := strings.Join(trailer[2:], "") == ""
	if records := s.line - 2; !empty || trailer[1] != strconv.Itoa(records) {
		return s.at(errors.New("another total than that of the lines"))
	}
	_, err := s.next()
	switch {
	case errors.Is(err, errEnd):
		return nil
	case err == nil:
		return s.at(errors.New("more behind the trailer"))
	}
	return err
}

func (s *settlement) at(err error) error { return fmt.Errorf("line %d: %w", s.line, err) }
