package native

import (
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
	settlementHeader = "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,createdAt"
	trailerMark      = "total" // in the column of the id

	// maxLine bounds a record of the file, in bytes, even if a quoted field spreads it over several lines.
	maxLine = 64 << 10
	// readAhead is how much a csv.Reader may have read of the following lines, in bytes.
	readAhead = 4 << 10
)

var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

var (
	errEnd       = errors.New("ends without its trailer")
	errMalformed = errors.New("malformed")
)

// settlement reads a settlement file (RFC 4180). The trailer has the number of lines, so a file that was cut off is
// noticed.
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
	s.lines.FieldsPerRecord = strings.Count(settlementHeader, ",") + 1
	return s
}

// read calls each with every record. Its errors name a line by its number, never by its content.
func (s *settlement) read(each func(gateway.Record) error) error {
	header, err := s.next()
	if err != nil {
		return err
	}
	if strings.Join(header, ",") != settlementHeader {
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
		r, err := s.record(fields)
		if err != nil {
			return s.at(err)
		}
		s.last = r.Created
		if err := each(r); err != nil {
			return s.at(fmt.Errorf("take record: %w", err))
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
	case s.allowance.N == 0, s.lines.InputOffset()-began > maxLine:
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

func (s *settlement) record(f []string) (gateway.Record, error) {
	for _, field := range f {
		if !utf8.ValidString(field) {
			return gateway.Record{}, errMalformed
		}
	}
	r := gateway.Record{
		ID: f[0], Object: gateway.Object(f[1]), Account: s.account, Key: f[2], Reference: f[3], ChargeID: f[4],
		AmountMinor: -1, Currency: f[6], Status: f[7],
	}
	if amount, err := strconv.ParseInt(f[5], 10, 64); err == nil && amountForm.MatchString(f[5]) {
		r.AmountMinor = amount
	}
	// What cannot be read stays negative or zero, which Accept refuses.
	r.Created, _ = gateway.ParseTime(f[8])
	r, err := r.Accept()
	switch {
	case err != nil:
		return gateway.Record{}, err
	case r.Created.Format(time.DateOnly) != s.day:
		return gateway.Record{}, errors.New("record of another day")
	case r.Created.Before(s.last):
		return gateway.Record{}, errors.New("not oldest first")
	}
	return r, nil
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
